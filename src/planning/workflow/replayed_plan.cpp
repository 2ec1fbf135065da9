#include "planning/workflow/replayed_plan.h"

#include <algorithm>

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
