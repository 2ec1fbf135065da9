#include "app/cli/runs/replayed_plan.h"

#include <algorithm>
#include <utility>

namespace lowgear {

Timeline replay_under(const PlanningProblem& problem, std::span<const int> clocks_mhz,
                      const ReplayConditions& conditions) {
  std::vector<OpCost> costs =
      conditions.switch_latency_s > 0
          ? costs_with_switch_latency(*problem.dag, *problem.profile, clocks_mhz, conditions.switch_latency_s)
          : costs_at_clocks(*problem.dag, *problem.profile, clocks_mhz);
  apply_slowdowns(*problem.dag, conditions.slowdowns, costs);
  return replay(*problem.dag, costs, problem.blocking_power_w);
}

ReportTimeline report_timeline(std::string label, const PipelineDag& dag, const Timeline& timeline,
                               std::span<const int> clocks_mhz) {
  ReportTimeline result{std::move(label), timeline.time_s, timeline.energy_j_total, {}};
  result.ranks.resize(static_cast<std::size_t>(dag.ranks));
  for (std::size_t i = 0; i < dag.ops.size(); ++i) {
    const ComputeOp& op = dag.ops[i];
    result.ranks[static_cast<std::size_t>(op.rank)].push_back({op.stage, op.kind, op.microbatch, clocks_mhz[i],
                                                               timeline.start_s[i], timeline.duration_s[i],
                                                               timeline.energy_j[i]});
  }
  return result;
}

Schedule schedule_of(const Plan& plan) {
  Schedule schedule{plan.schedule, 0, plan.microbatches, {}};
  for (const auto& ops : plan.ranks) {
    auto& actions = schedule.ranks.emplace_back();
    for (const PlannedOp& op : ops) {
      actions.push_back({ActionKind::compute, op.kind, op.stage, op.microbatch});
      schedule.stages = std::max(schedule.stages, op.stage + 1);
    }
  }
  return schedule;
}

}  // namespace lowgear
