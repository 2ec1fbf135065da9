#include "planning/planner/policies/clock_choice.h"

#include <cstddef>
#include <utility>

namespace lowgear::planner {

std::vector<int> max_clocks_mhz(const PlanningProblem& problem) {
  std::vector<int> clocks;
  clocks.reserve(problem.dag->ops.size());
  for (const schedule::ComputeOp& op : problem.dag->ops) {
    clocks.push_back(problem.profile->at_max_clock(op.stage, op.kind).clock_mhz);
  }
  return clocks;
}

plan::OpChoices fastest_settings(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                                 std::vector<int> clocks_mhz) {
  plan::OpChoices choices{std::move(clocks_mhz), {}};
  if (!profile.has_settings()) return choices;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    choices.settings.push_back(profile.at_clock(dag.ops[op].stage, dag.ops[op].kind, choices.clocks_mhz[op]).setting);
  }
  return choices;
}

simulator::Timeline replay_clocks(const PlanningProblem& problem, std::span<const int> clocks_mhz) {
  return simulator::replay(*problem.dag, simulator::costs_at_clocks(*problem.dag, *problem.profile, clocks_mhz),
                           problem.blocking_power_w);
}

plan::Plan plan_of_replay(std::string policy, const PlanningProblem& problem, const simulator::Timeline& timeline,
                          const plan::OpChoicesView& choices) {
  plan::Plan plan;
  plan.policy = std::move(policy);
  plan.schedule = problem.schedule->name;
  plan.microbatches = problem.dag->microbatches;
  plan.deadline_s = timeline.time_s;
  plan.time_s = timeline.time_s;
  plan.energy_j = timeline.energy_j_total;
  plan.ranks = planned_ops(*problem.dag, timeline, choices);
  plan.switches = count_switches(plan.ranks);
  return plan;
}

}  // namespace lowgear::planner
