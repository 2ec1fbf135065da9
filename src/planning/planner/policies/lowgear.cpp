#include "planning/planner/policies/lowgear.h"

#include <fmt/format.h>

#include "planning/plan/plan.h"

namespace lowgear::planner {

PolicyPlan LowgearPolicy::plan(const PlanningProblem& problem, std::optional<double> deadline_s) const {
  PipelinePlanner planner(*problem.schedule, *problem.profile, problem.blocking_power_w, options_, {},
                          problem.progress);
  const plan::Plan plan = planner.plan(deadline_s.value_or(planner.fastest_s()));
  PolicyPlan answer;
  answer.clocks_mhz = clocks_for(plan, planner.dag());
  answer.own_time_s = plan.time_s;
  answer.own_energy_j = plan.energy_j;
  answer.note = fmt::format("at most {:.3f} % above the least energy possible", plan.gap_pct().value_or(0));
  return answer;
}

}  // namespace lowgear::planner
