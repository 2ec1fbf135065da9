#pragma once

#include "planning/planner/policies/policy.h"

namespace lowgear::planner {

/// Every op at the highest clock it was profiled at: an unplanned run. The baseline of savings.
class MaxClockPolicy final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "max"; }
  [[nodiscard]] PolicyPlan plan(const PlanningProblem& problem, std::optional<double> deadline_s) const override;
};

}  // namespace lowgear::planner
