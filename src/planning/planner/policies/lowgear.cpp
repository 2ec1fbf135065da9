#include "planning/planner/policies/lowgear.h"

#include <fmt/format.h>

#include <utility>

#include "planning/plan/plan.h"

namespace lowgear::planner {

PolicyPlan LowgearPolicy::plan(const PlanningProblem& problem, std::optional<double> deadline_s) const {
  PipelinePlanner planner(*problem.schedule, *problem.profile, problem.blocking_power_w, options_, {},
                          problem.progress);
  const plan::Plan plan = planner.plan(deadline_s.value_or(planner.fastest_s()));
  plan::OpChoices choices = choices_for(plan, planner.dag());
  PolicyPlan answer;
  answer.clocks_mhz = std::move(choices.clocks_mhz);
  answer.settings = std::move(choices.settings);
  answer.own_time_s = plan.time_s;
  answer.own_energy_j = plan.energy_j;
  answer.note = fmt::format("at most {:.3f} % above the least energy possible", plan.gap_pct().value_or(0));
  return answer;
}

}  // namespace lowgear::planner
