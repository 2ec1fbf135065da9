#include "control/client/rank/rank_environment.h"

#include <fmt/format.h>

#include <array>

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

constexpr std::array<Launcher, 4> kLaunchers = {{
    {"torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"MPICH", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"},
    {"Slurm", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"},
}};

std::optional<RankInfo> ask(const Environment& environment, const Launcher& launcher) {
  const std::optional<int> rank = number_from_environment(environment, launcher.rank);
  if (!rank) return std::nullopt;
  RankInfo info;
  info.rank = *rank;
  const std::optional<int> world_size = number_from_environment(environment, launcher.world_size);
  info.world_size = world_size.value_or(*rank + 1);
  info.world_size_known = world_size.has_value();
  info.local_rank = number_from_environment(environment, launcher.local_rank).value_or(0);
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
  return info;
}

}  // namespace lowgear::client
