#include "client/rank/rank_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/core/error.h"
#include "base/core/numbers/number.h"

namespace lowgear::client {
namespace {

constexpr int kMaxWorldSize = 1 << 24;

struct Launcher {
  const char* name;
  const char* rank;
  const char* local_rank;
  const char* world_size;
};

constexpr std::array<Launcher, 7> kLaunchers = {{
    {"torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE"},
    {"MPICH", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"},
    {"LSF", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_SIZE"},
    {"Flux", "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_SIZE"},
    {"Slurm", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"},
}};

/// What scripts (EnvPipe's among them), torchrun, Kubernetes' PyTorchJob and accelerate call the nodes of a job, this
/// node's number among them, and its ranks on each.
struct Count {
  std::array<const char*, 4> names;  ///< null where there are fewer
  const char* what;
  int least;
  bool has_words = false;  ///< torchrun's, which say no number
};
constexpr Count kNodes = {{"NNODES", "PET_NNODES", "NUM_NODES", "SLURM_NNODES"}, "number of nodes", 1};
constexpr Count kNodesOfTorchrun = {{"NNODES", "PET_NNODES"}, "number of nodes", 1};
constexpr Count kNodeRank = {{"NODE_RANK", "PET_NODE_RANK", "GROUP_RANK", "MACHINE_RANK"}, "rank of a node", 0};
constexpr Count kRanksOnNode = {{"NPROC_PER_NODE", "PET_NPROC_PER_NODE"}, "number of ranks on a node", 1, true};

struct Said {
  const char* name;
  int number;
};

/// Of a range of nodes (`1:4`) the most.
int number_of(const Count& count, const char* name, std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto least = parse_integer(text.substr(0, colon));
  const auto most = colon == std::string_view::npos ? least : parse_integer(text.substr(colon + 1));
  if (least && most && *least >= count.least && *least <= *most && *most <= kMaxWorldSize)
    return static_cast<int>(*most);
  throw InputError(fmt::format("{}={} is no {}; expected a whole number from {}, or unset {}", name,
                               printable(text, 60), count.what, count.least, name));
}

/// The first of the variables that says a number from 1. An empty one says nothing.
std::optional<Said> first_said(const Environment& environment, const Count& count) {
  constexpr std::array<std::string_view, 4> kCounted = {"auto", "gpu", "cpu", "xpu"};
  std::optional<Said> first;
  for (const char* name : count.names) {
    const std::optional<std::string> text = name == nullptr ? std::nullopt : environment(name);
    if (!text || text->empty()) continue;
    if (count.has_words && std::ranges::find(kCounted, *text) != kCounted.end()) continue;
    const int number = number_of(count, name, *text);
    if (!first && number > 0) first = Said{name, number};
  }
  return first;
}

std::string start_on_each_node() {
  return "start the ranks with torchrun on every node (torchrun --no-python --nnodes $NNODES --nproc-per-node "
         "$NPROC_PER_NODE --node-rank $NODE_RANK --master-addr $MASTER_ADDR lowgear ...), or with srun or mpirun";
}

/// Throws InputError where nodes times ranks of a node are not the ranks that the launcher has started.
void require_as_many(const Environment& environment, const RankInfo& info) {
  const std::optional<Said> nodes = first_said(environment, kNodesOfTorchrun);
  const std::optional<Said> ranks = first_said(environment, kRanksOnNode);
  if (!nodes || !ranks || info.launcher == "none" || info.world_size == 1) return;
  if (static_cast<long long>(nodes->number) * ranks->number == info.world_size) return;
  throw InputError(
      fmt::format("{}={} and {}={} are not the {} ranks that {} has started: start all nodes together, or "
                  "unset these variables",
                  nodes->name, nodes->number, ranks->name, ranks->number, info.world_size, info.launcher));
}

std::optional<RankInfo> ask(const Environment& environment, const Launcher& launcher) {
  // All are read, so that what is no number is refused also where the rank is missing.
  const std::optional<int> rank = number_from_environment(environment, launcher.rank);
  const std::optional<int> world_size = number_from_environment(environment, launcher.world_size);
  const std::optional<int> local_rank = number_from_environment(environment, launcher.local_rank);
  if (!rank) return std::nullopt;
  RankInfo info;
  info.rank = *rank;
  info.world_size = world_size.value_or(*rank + 1);
  info.world_size_known = world_size.has_value();
  info.local_rank = local_rank.value_or(0);
  info.launcher = launcher.name;
  if (info.rank >= info.world_size) {
    throw InputError(
        fmt::format("{}={} is not below {}={}", launcher.rank, info.rank, launcher.world_size, info.world_size));
  }
  return info;
}

/// The name of this start. torchrun counts restarts on each node by itself, so that nodes of one start may name
/// different numbers: the server notices such a restart without them.
std::string run_from_environment(const Environment& environment) {
  if (const auto run = environment("LOWGEAR_RUN"); run && !run->empty()) return *run;
  std::string run;
  if (const auto id = environment("SLURM_JOB_ID"); id && !id->empty()) {
    const std::string step = environment("SLURM_STEP_ID").value_or("");
    const std::string again = environment("SLURM_RESTART_COUNT").value_or("0");
    run = fmt::format("slurm-{}{}{}", *id, step.empty() ? "" : "-" + step, again == "0" ? "" : "." + again);
  }
  const auto id = environment("TORCHELASTIC_RUN_ID");
  if (!id || id->empty() || *id == "none") return run;
  return fmt::format("{}{}torch-{}", run, run.empty() ? "" : " ", *id);
}

std::string user_from_environment(const Environment& environment) {
  const std::optional<std::string> user = environment("LOWGEAR_USER");
  return user && !user->empty() ? *user : environment("SLURM_JOB_USER").value_or("");
}

}  // namespace

std::optional<int> number_from_environment(const Environment& environment, const char* name) {
  const std::optional<std::string> text = environment(name);
  if (!text || text->empty()) return std::nullopt;
  const std::optional<long long> value = parse_integer(*text);
  if (!value || *value < 0 || *value > kMaxWorldSize) {
    throw InputError(
        fmt::format("{}={} is not a rank or size; expected a whole number from 0", name, printable(*text, 60)));
  }
  return static_cast<int>(*value);
}

RankInfo rank_from_environment(const Environment& environment) {
  std::optional<RankInfo> chosen;
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<RankInfo> said = ask(environment, launcher);
    if (!said) continue;
    if (!chosen) {
      chosen = said;
    } else if (said->rank != chosen->rank && chosen->conflict.empty()) {
      chosen->conflict = fmt::format("{} says rank {} and {} says rank {}; {} counts", chosen->launcher, chosen->rank,
                                     said->launcher, said->rank, chosen->launcher);
    }
  }
  if (!chosen) {
    chosen = RankInfo{};
    chosen->launcher = "none";
  }
  chosen->job = environment("SLURM_JOB_ID").value_or(environment("TORCHELASTIC_RUN_ID").value_or(""));
  chosen->run = run_from_environment(environment);
  chosen->user = user_from_environment(environment);
  return *chosen;
}

RankInfo job_rank_from_environment(const Environment& environment) {
  RankInfo info = rank_from_environment(environment);
  for (const Launcher& launcher : kLaunchers) {
    if (info.launcher != launcher.name || number_from_environment(environment, launcher.world_size)) continue;
    const bool batch_script = launcher.name == std::string_view("Slurm") && !environment("SLURM_STEP_ID");
    if (batch_script) continue;
    throw InputError(fmt::format("{0}={1} is set and {2} is not: set both, or unset {0}", launcher.rank, info.rank,
                                 launcher.world_size));
  }
  require_as_many(environment, info);
  return info;
}

bool names_several_nodes(const Environment& environment) {
  const std::optional<Said> nodes = first_said(environment, kNodes);
  return (nodes && nodes->number > 1) || first_said(environment, kNodeRank);
}

void require_all_ranks_here(const Environment& environment, int ranks) {
  const std::string all_here = fmt::format("all {} ranks would be started on this node", ranks);
  if (const std::optional<Said> nodes = first_said(environment, kNodes); nodes && nodes->number > 1) {
    throw InputError(fmt::format("{0}={1}: the job has {1} nodes, and {2}: {3}; for a job of one node unset {0}",
                                 nodes->name, nodes->number, all_here, start_on_each_node()));
  }
  if (const std::optional<Said> node = first_said(environment, kNodeRank)) {
    throw InputError(
        fmt::format("{0}={1}: this is not the only node of the job, and {2}: {3}; for a job of one node "
                    "unset {0}",
                    node->name, node->number, all_here, start_on_each_node()));
  }
  if (const std::optional<Said> here = first_said(environment, kRanksOnNode); here && here->number != ranks) {
    throw InputError(fmt::format("{0}={1}, and {2}: make the job one of {1} ranks, or unset {0}", here->name,
                                 here->number, all_here));
  }
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<int> size = number_from_environment(environment, launcher.world_size);
    const bool allocation = launcher.name == std::string_view("Slurm");  // has a size without ranks
    if (allocation || size.value_or(1) == 1 || number_from_environment(environment, launcher.rank)) continue;
    throw InputError(fmt::format("{0}={1} is set and {2} is not: set both, or unset {0}", launcher.world_size, *size,
                                 launcher.rank));
  }
}

}  // namespace lowgear::client
