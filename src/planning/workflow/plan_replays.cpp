#include "planning/workflow/plan_replays.h"

#include <cstddef>
#include <vector>

namespace lowgear::workflow {
namespace {

/// The same plan on every pipeline; the first is the slow one.
simulator::ClusterTimeline replay_copies(const ProfiledPipeline& pipeline, const plan::OpChoicesView& choices,
                                         const ReplayRequest& request) {
  const simulator::PipelineRun run{.clocks_mhz = {choices.clocks_mhz.begin(), choices.clocks_mhz.end()},
                                   .slowdowns = request.conditions.slowdowns,
                                   .settings = {choices.settings.begin(), choices.settings.end()}};
  std::vector<simulator::PipelineRun> runs(static_cast<std::size_t>(request.pipelines), run);
  for (int stage = 0; stage < pipeline.dag.stages; ++stage) {
    runs.front().slowdowns.push_back({stage, request.slow_pipeline.value_or(1)});
  }
  return replay_cluster(pipeline.dag, pipeline.profile, runs, pipeline.blocking_power_w);
}

}  // namespace

PlanReplays replay_plan(const ProfiledPipeline& pipeline, const plan::OpChoicesView& choices,
                        const ReplayRequest& request) {
  const planner::PlanningProblem problem = pipeline.problem();
  const ReplayConditions& conditions = request.conditions;
  PlanReplays replays;
  replays.timeline = replay_under(problem, choices, conditions);
  if (!conditions.slowdowns.empty()) {
    replays.unslowed = figures_of(replay_under(problem, choices, {conditions.switch_latency_s, {}}));
  }
  if (request.late_s) {
    replays.late = figures_of(replay_under(problem, choices, {*request.late_s, conditions.slowdowns}));
  }
  if (request.pipelines > 1 || request.slow_pipeline) replays.cluster = replay_copies(pipeline, choices, request);
  return replays;
}

}  // namespace lowgear::workflow
