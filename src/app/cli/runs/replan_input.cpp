#include "app/cli/runs/replan_input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <utility>

#include "app/cli/runs/plan_output.h"
#include "app/cli/terminal/memory.h"
#include "base/core/error.h"
#include "planning/workflow/planning_memory.h"

namespace lowgear::cli {
namespace {

/// Virtual stages per rank that the search tries at most.
constexpr int kMostChunks = 2;

profile::Partition partition_by_rank(const FollowedPlan& plan, const std::string& layers) {
  const int ranks = plan.contents.schedule.rank_count();
  if (!plan.moved_layers) return partition_from_layers(layers, ranks);
  const profile::Partition& moved = *plan.moved_layers;
  const bool is_sum = layers == fmt::to_string(std::accumulate(moved.begin(), moved.end(), 0));
  if (is_sum || layers == fmt::format("{}", fmt::join(moved, ","))) return moved;
  throw InputError(fmt::format("--layers {}: the plan's layers are {} by rank, as it has moved them; give their sum",
                               layers, fmt::join(moved, ",")));
}

void require_backwards(const JointInput& input, const profile::Partition& partition) {
  try {
    require_trained(input.problem);
  } catch (const InputError&) {
    throw InputError(fmt::format(
        "--schedule auto: with the layers {} a stage has nothing left to train, and orders are searched for "
        "pipelines that train every stage; leave out --schedule auto, or freeze fewer layers",
        fmt::join(partition, ",")));
  }
}

}  // namespace

FollowedPlan read_followed_plan(const std::filesystem::path& folder) {
  FollowedPlan plan;
  if (!is_joint_folder(folder)) {
    plan.contents = read_run_contents(read_plan_folder(folder), folder);
    if (plan.contents.schedule.stages == plan.contents.schedule.rank_count()) plan.by_rank = plan.contents.profile;
    return plan;
  }
  const planner::JointFolder files = read_joint_folder(folder);
  plan.contents = workflow::read_joint_contents(files);
  plan.by_rank = profile::read_stage_profile(files.profile.text, files.profile.name);
  const std::optional<workflow::PartitionRun>& partition = plan.contents.run.joint->partition;
  if (partition) plan.moved_layers = partition->chosen;
  return plan;
}

profile::Partition followed_partition(const FollowedPlan& plan, const std::string& layers) {
  const schedule::Schedule& order = plan.contents.schedule;
  const int chunks = order.stages / order.rank_count();
  if (chunks == 1) return partition_by_rank(plan, layers);
  if (!plan.moved_layers) return partition_from_layers(layers, order.stages);
  throw InputError(fmt::format(
      "the plan's order {} has {} stages on each rank, in equal parts of layers that the planner has moved: give "
      "--schedule auto",
      order.name, chunks));
}

JointInput joint_input(const FollowedPlan& plan, const FreeOrderChange& change) {
  const workflow::RunFile& run = plan.contents.run;
  if (!plan.by_rank) {
    throw InputError(
        fmt::format("--schedule auto: the plan's order {} has several stages on a rank, and the search needs a profile "
                    "with one for each; plan it with lowgear plan --schedule auto first",
                    plan.contents.schedule.name));
  }
  const int ranks = plan.contents.schedule.rank_count();
  const profile::Partition given = partition_by_rank(plan, change.work.layers);
  const profile::StageProfile measured =
      change.backward_split ? workflow::split_backward(*plan.by_rank, *change.backward_split) : *plan.by_rank;
  const profile::LayerProfile layers = layer_profile_of(measured, given);
  profile::LayerProfile changed = changed_profile(layers, work_change(change.work, layers.layers.stages()));
  const profile::Partition partition = change.keep_partition ? given : balanced_partition(changed, ranks);
  const std::string planned_limit = run.joint ? run.joint->memory_limit : "1f1b";

  JointInput input;
  input.profile_name = run.profile;
  joint::JointProblem& problem = input.problem;
  problem.profile = stage_profile_of(changed, partition);
  problem.blocking_power_w = run.blocking_power_w;
  problem.microbatches = change.work.microbatches.value_or(plan.contents.schedule.microbatches);
  problem.memory = joint::parse_memory_limit(change.memory_limit.value_or(planned_limit));
  require_backwards(input, partition);
  (void)most_activations(problem.memory, ranks, problem.microbatches, 1);  // says whether it is for so many ranks
  workflow::require_planning_memory(ranks, problem.microbatches, kMostChunks, available_memory_bytes());
  if (!change.keep_partition) input.free_layers = workflow::FreeLayers{std::move(changed), partition};
  return input;
}

}  // namespace lowgear::cli
