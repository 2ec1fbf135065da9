#include "planning/planner/policies/max_clock.h"

#include "planning/planner/policies/clock_choice.h"

namespace lowgear::planner {

PolicyPlan MaxClockPolicy::plan(const PlanningProblem& problem, std::optional<double> deadline_s) const {
  PolicyPlan plan;
  plan.clocks_mhz = max_clocks_mhz(problem);
  if (deadline_s) plan.note = "knows no deadline";
  return plan;
}

}  // namespace lowgear::planner
