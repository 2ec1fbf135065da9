#include "planning/workflow/replayed_plan.h"

#include <algorithm>

#include "planning/schedule/freezing.h"

namespace lowgear::workflow {

simulator::Timeline replay_under(const planner::PlanningProblem& problem, const plan::OpChoicesView& choices,
                                 const ReplayConditions& conditions) {
  std::vector<simulator::OpCost> costs =
      conditions.switch_latency_s > 0
          ? simulator::costs_with_switch_latency(*problem.dag, *problem.profile, choices, conditions.switch_latency_s)
          : simulator::costs_at_clocks(*problem.dag, *problem.profile, choices);
  apply_slowdowns(*problem.dag, conditions.slowdowns, costs);
  return replay(*problem.dag, costs, problem.blocking_power_w);
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

}  // namespace lowgear::workflow
