#pragma once

#include <optional>
#include <string_view>

#include "planning/planner/planners/pipeline_planner.h"
#include "planning/planner/policies/policy.h"

namespace lowgear::planner {

/// Lowgear's own planner with the interface of the published policies: the best plan found for the deadline, or for
/// T_min without one. Its own figures are the replayed ones.
class LowgearPolicy final : public Policy {
 public:
  explicit LowgearPolicy(PlannerOptions options = {}) : options_(options) {}
  [[nodiscard]] std::string_view name() const override { return kLowgearPolicy; }
  [[nodiscard]] PolicyPlan plan(const PlanningProblem& problem, std::optional<double> deadline_s) const override;

 private:
  PlannerOptions options_;
};

}  // namespace lowgear::planner
