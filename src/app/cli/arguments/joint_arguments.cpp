#include "app/cli/arguments/joint_arguments.h"

#include <fmt/format.h>

#include <utility>

#include "app/cli/arguments/blocking_power_argument.h"
#include "app/cli/arguments/work_change_arguments.h"
#include "app/cli/terminal/memory.h"
#include "base/core/error.h"
#include "planning/workflow/planning_memory.h"

namespace lowgear::cli {
namespace {

/// Virtual stages per rank that the search tries at most.
constexpr int kMostChunks = 2;

void require_free_order(const ScheduleArguments& arguments) {
  if (arguments.chunks) throw InputError("--chunks: the search chooses the stages of each rank; leave it out");
  if (arguments.extra_activations) {
    throw InputError("--extra-activations: give --memory-limit, which holds for every order of the search");
  }
  if (!arguments.microbatches) throw InputError("--schedule auto needs --microbatches");
}

/// Bytes of activations belong to the layers that a rank has in the profile.
void require_countable_memory(const std::string& memory_limit, const joint::MemoryLimit& read) {
  if (memory_limit == "1f1b" || memory_limit == to_string(read)) return;
  throw InputError(
      fmt::format("--memory-limit {}: with --layers the bytes of a microbatch change with the layers of a rank; give "
                  "1f1b or numbers of microbatches",
                  memory_limit));
}

}  // namespace

void add_memory_limit_option(CLI::App& app, std::optional<std::string>& memory_limit) {
  app.add_option(
         "--memory-limit", memory_limit,
         "With --schedule auto or the policy envpipe: activations that fit into the memory of each rank, as "
         "1f1b (what 1F1B holds on "
         "it, the default), as a number of microbatches, the same on every rank or one for each (8,8,6,4), or as "
         "bytes (12GiB) where the profile has the column activation_bytes")
      ->type_name("1f1b|N|BYTES|N,N,...");
}

JointInput load_joint_input(const PipelineArguments& arguments, const std::optional<std::string>& memory_limit,
                            const std::optional<std::string>& layers) {
  require_free_order(arguments.schedule);
  PipelineInput read;
  read.profile_name = arguments.profile;
  JointInput input;
  input.profile_name = arguments.profile;
  joint::JointProblem& problem = input.problem;
  problem.profile = read_profile(read);
  problem.memory = joint::parse_memory_limit(memory_limit.value_or("1f1b"), read.columns.activation_bytes);
  input.switch_latency_s = read.switch_latency_s;
  require_trained(problem);
  if (arguments.shares.backward_split) {
    problem.profile = workflow::split_backward(problem.profile, *arguments.shares.backward_split);
  }
  problem.microbatches = *arguments.schedule.microbatches;
  const int ranks = problem.ranks();
  (void)most_activations(problem.memory, ranks, problem.microbatches,
                         1);  // says whether the limit is for so many ranks
  if (arguments.schedule.stages.value_or(ranks) != ranks) {
    throw InputError(fmt::format("the profile has {} stages and --stages says {}: the search needs one stage per rank",
                                 ranks, *arguments.schedule.stages));
  }
  if (layers) {
    if (memory_limit) require_countable_memory(*memory_limit, problem.memory);
    const profile::Partition given = partition_from_layers(*layers, ranks);
    input.free_layers = workflow::FreeLayers{layer_profile_of(problem.profile, given), given};
  }
  workflow::require_planning_memory(ranks, problem.microbatches, kMostChunks, available_memory_bytes());
  problem.blocking_power_w = blocking_power_from_argument(arguments.blocking_power, ranks);
  input.doubts = doubts_of(read, problem.blocking_power_w, arguments.gpu_name);
  return input;
}

}  // namespace lowgear::cli
