#include "planning/workflow/replayed_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/core/numbers/number.h"
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

std::optional<std::string> faster_than_full_clocks(double plan_s, double full_clocks_s) {
  constexpr double kNoise = 0.003;  // as of profiles that Lowgear makes (monotone_times)
  if (plan_s >= full_clocks_s * (1 - kNoise)) return std::nullopt;
  return fmt::format(
      "a plan takes {:.6g} s, less than the {:.6g} s of all clocks at their highest ({:+.2f} %): by its profile some "
      "op "
      "is faster at a lower clock. Unless a power limit or heat held the GPU back at high clocks, a row is wrong: see "
      "lowgear inspect",
      plan_s, full_clocks_s, change_pct(full_clocks_s, plan_s));
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
