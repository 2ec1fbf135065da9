#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planning/api/profiled_pipeline.h"
#include "planning/plan/plan.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/planner/policies/policy.h"
#include "planning/simulator/cluster.h"
#include "planning/simulator/replay.h"

namespace lowgear::api {

/// The conditions of a replay that the profile does not state.
struct ReplayConditions {
  double switch_latency_s = 0;
  std::vector<simulator::StageSlowdown> slowdowns;
};

/// One iteration with the given clocks and settings. Throws what `costs_at_clocks`, `costs_with_switch_latency` and
/// `slowed_work` throw.
[[nodiscard]] simulator::Timeline replay_under(const planner::PlanningProblem& problem,
                                               const plan::OpChoicesView& choices, const ReplayConditions& conditions);

/// Time and energy of the whole pipeline.
[[nodiscard]] inline simulator::PipelineFigures figures_of(const simulator::Timeline& timeline) {
  return {timeline.time_s, timeline.energy_j_total};
}

/// Why agents cannot request clocks `lead_s` before their units in iterations of this length: they look less than one
/// iteration ahead. Empty where they can.
[[nodiscard]] std::optional<std::string> lead_problem(double lead_s, double iteration_s);
/// Throws InputError with that reason and the options that help.
void require_lead_within(double lead_s, double iteration_s);

/// Why a plan of this time is in doubt: it is faster than all clocks at their highest in the same order, by more than
/// noise (0.3 %). Empty where it is not.
[[nodiscard]] std::optional<std::string> faster_than_full_clocks(double plan_s, double full_clocks_s);

/// The schedule that a plan follows, derived from its ops.
[[nodiscard]] schedule::Schedule schedule_of(const plan::Plan& plan);

/// The vertices of a frontier, fastest first: seconds and joules of one iteration, one GPU a rank.
[[nodiscard]] std::vector<simulator::PipelineFigures> frontier_points(const planner::Frontier& frontier);

/// The proven lower bound at the same times; empty for an exact frontier, which is its own bound.
[[nodiscard]] std::vector<simulator::PipelineFigures> lower_bound_points(const planner::Frontier& frontier,
                                                                         planner::FrontierMethod method);

/// The replays of a plan that are asked for.
struct ReplayRequest {
  ReplayConditions conditions = {};
  std::optional<double> late_s = {};         ///< also with this switch latency
  int pipelines = 1;                         ///< pipelines that wait for each other; clocks of a cluster change at once
  std::optional<double> slow_pipeline = {};  ///< factor by which one of them is slower
  Progress* progress = nullptr;              ///< may be null
};

/// What the errors of predicted rows leave open of one iteration.
struct PredictedInterval {
  int predicted_ops = 0;  ///< that run at a predicted row
  int ops = 0;            ///< of the iteration
  simulator::PipelineFigures low = {};
  simulator::PipelineFigures high = {};
};

/// Nine cases in ten of one iteration, where the errors of all predicted rows go in the same direction. Empty where no
/// op runs at a predicted row, or no such row states an error.
[[nodiscard]] std::optional<PredictedInterval> predicted_interval(const ProfiledPipeline& pipeline,
                                                                  const plan::OpChoicesView& choices,
                                                                  const ReplayConditions& conditions);

/// `48 of 96 ops run at predicted clocks: 5.21 to 5.58 s, 3100 to 3340 J (90 % interval)`
[[nodiscard]] std::string text_of(const PredictedInterval& interval);

/// The replays of one iteration of a plan.
struct PlanReplays {
  simulator::Timeline timeline;
  std::optional<PredictedInterval> predicted;          ///< of the timeline
  std::optional<simulator::PipelineFigures> unslowed;  ///< without the slowdowns, where there are any
  std::optional<simulator::PipelineFigures> late;
  std::optional<simulator::ClusterTimeline> cluster;
};

/// Replays a plan, given by the clock and setting of every op. Throws as `replay_under` and `replay_cluster` do.
[[nodiscard]] PlanReplays replay_plan(const ProfiledPipeline& pipeline, const plan::OpChoicesView& choices,
                                      const ReplayRequest& request);

}  // namespace lowgear::api
