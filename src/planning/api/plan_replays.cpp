#include "planning/api/plan_replays.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

#include "base/core/error.h"
#include "base/core/numbers/figure_text.h"
#include "base/core/numbers/number.h"
#include "planning/schedule/schedule.h"

namespace lowgear::api {

simulator::Timeline replay_under(const planner::PlanningProblem& problem, const plan::OpChoicesView& choices,
                                 const ReplayConditions& conditions) {
  const std::vector<double> work = slowed_work(*problem.dag, conditions.slowdowns);
  const simulator::IterationWork slowed{.work = work, .clocks_before_mhz = {}};
  const std::vector<simulator::OpCost> costs =
      conditions.switch_latency_s > 0 ? simulator::costs_with_switch_latency(*problem.dag, *problem.profile, choices,
                                                                             conditions.switch_latency_s, slowed)
                                      : simulator::costs_at_clocks(*problem.dag, *problem.profile, choices, slowed);
  return replay(*problem.dag, costs, problem.blocking_power_w);
}

std::optional<std::string> lead_problem(double lead_s, double iteration_s) {
  if (lead_s < iteration_s) return std::nullopt;
  return fmt::format(
      "clocks change {:.4g} s after the request, and an iteration takes {:.4g} s: agents request clocks less than one "
      "iteration ahead, so the switch latency must be shorter than an iteration",
      lead_s, iteration_s);
}

void require_lead_within(double lead_s, double iteration_s) {
  const std::optional<std::string> problem = lead_problem(lead_s, iteration_s);
  if (!problem) return;
  throw InputError(*problem +
                   "; correct --switch-latency, or add --no-ask-ahead to plan with clocks that change that late");
}

std::optional<std::string> faster_than_full_clocks(double plan_s, double full_clocks_s) {
  constexpr double kNoise = 0.003;  // as of profiles that Lowgear makes (monotone_times)
  if (plan_s >= full_clocks_s * (1 - kNoise)) return std::nullopt;
  return fmt::format(
      "a plan takes {:.6g} s, less than the {:.6g} s of all clocks at their highest ({} %): by its profile some "
      "op is faster at a lower clock. Unless a power limit or heat held the GPU back at high clocks, a row is wrong: "
      "see "
      "lowgear show",
      plan_s, full_clocks_s, signed_text(change_pct(full_clocks_s, plan_s), 2));
}

schedule::Schedule schedule_of(const plan::Plan& plan) {
  schedule::Schedule schedule{plan.schedule, 0, plan.microbatches, {}};
  for (const auto& ops : plan.ranks) {
    auto& actions = schedule.ranks.emplace_back();
    for (const plan::PlannedOp& op : ops) {
      actions.push_back({schedule::ActionKind::compute, op.kind, op.stage, op.microbatch});
      schedule.stages = std::max(schedule.stages, op.stage + 1);
    }
  }
  schedule.frozen_stages = stages_without_backward(schedule);
  return schedule;
}

std::vector<simulator::PipelineFigures> frontier_points(const planner::Frontier& frontier) {
  std::vector<simulator::PipelineFigures> points;
  points.reserve(frontier.vertices().size());
  for (const planner::FrontierVertex& vertex : frontier.vertices()) {
    points.push_back({s_from_ps(vertex.time_ps), frontier.energy_j(vertex)});
  }
  return points;
}

std::vector<simulator::PipelineFigures> lower_bound_points(const planner::Frontier& frontier,
                                                           planner::FrontierMethod method) {
  std::vector<simulator::PipelineFigures> points;
  if (method == planner::FrontierMethod::exact) return points;
  for (const planner::FrontierVertex& vertex : frontier.vertices()) {
    points.push_back({s_from_ps(vertex.time_ps), frontier.lower_bound_j_at(vertex.time_ps)});
  }
  return points;
}

std::optional<PredictedInterval> predicted_interval(const ProfiledPipeline& pipeline,
                                                    const plan::OpChoicesView& choices,
                                                    const ReplayConditions& conditions) {
  std::map<profile::CellKey, bool> states_error;  // of each predicted row
  for (const auto& [cell, time_error_s, energy_error_j] : pipeline.predicted) {
    states_error[cell] = time_error_s > 0 || energy_error_j > 0;
  }
  PredictedInterval interval{.ops = static_cast<int>(pipeline.dag.ops.size())};
  bool has_error = false;
  for (std::size_t i = 0; i < pipeline.dag.ops.size(); ++i) {
    const schedule::ComputeOp& op = pipeline.dag.ops[i];
    const auto row = states_error.find({op.stage, op.kind, choices.clocks_mhz[i]});
    if (row == states_error.end()) continue;
    ++interval.predicted_ops;
    has_error = has_error || row->second;
  }
  if (!has_error) return std::nullopt;
  constexpr double kNineInTen = 1.645;
  const auto figures = [&](double errors) {
    const profile::StageProfile moved = moved_by_errors(pipeline.profile, pipeline.predicted, errors);
    planner::PlanningProblem problem = pipeline.problem();
    problem.profile = &moved;
    return figures_of(replay_under(problem, choices, conditions));
  };
  interval.low = figures(-kNineInTen);
  interval.high = figures(kNineInTen);
  return interval;
}

std::string text_of(const PredictedInterval& interval) {
  return fmt::format("{} of {} ops run at predicted clocks: {:.4g} to {:.4g} s, {:.4g} to {:.4g} J (90 % interval)",
                     interval.predicted_ops, interval.ops, interval.low.time_s, interval.high.time_s,
                     interval.low.energy_j, interval.high.energy_j);
}

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
  return replay_cluster(pipeline.dag, pipeline.profile, runs, pipeline.blocking_power_w, request.progress);
}

}  // namespace

PlanReplays replay_plan(const ProfiledPipeline& pipeline, const plan::OpChoicesView& choices,
                        const ReplayRequest& request) {
  const planner::PlanningProblem problem = pipeline.problem();
  const ReplayConditions& conditions = request.conditions;
  PlanReplays replays;
  replays.timeline = replay_under(problem, choices, conditions);
  replays.predicted = predicted_interval(pipeline, choices, conditions);
  if (!conditions.slowdowns.empty()) {
    replays.unslowed = figures_of(replay_under(problem, choices, {conditions.switch_latency_s, {}}));
  }
  if (request.late_s) {
    replays.late = figures_of(replay_under(problem, choices, {*request.late_s, conditions.slowdowns}));
  }
  if (request.pipelines > 1 || request.slow_pipeline) replays.cluster = replay_copies(pipeline, choices, request);
  return replays;
}

}  // namespace lowgear::api
