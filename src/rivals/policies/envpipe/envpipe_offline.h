#pragma once

#include "planning/planner/policies/policy.h"
#include "rivals/policies/perseus/perseus_policy.h"

namespace lowgear::policies {

/// What the authors of Perseus (SOSP'24 artifact) compared with under the name EnvPipe: its envelope and its balanced
/// reconfiguration, driven by a stage profile instead of a running training, and without EnvPipe's own schedule.
///
/// Every op starts at its slowest Pareto option, except those of the outer envelope (all of the last stage, the first
/// forward and the last backward of each stage), which run at the highest clock. Then, again and again, the first
/// critical path is looked at and its ops of lowest clock move one profiled clock up, until the path lies within the
/// envelope or cannot become faster. (The artifact has only the first of these two ends; where the last stage is not
/// the heaviest it does not stop.)
class EnvPipeOfflinePolicy final : public planner::Policy {
 public:
  /// Critical paths are distinguished by times rounded down to `unit_s`.
  explicit EnvPipeOfflinePolicy(double unit_s = kPerseusUnitS) : unit_s_(unit_s) {}

  [[nodiscard]] std::string_view name() const override { return "envpipe-offline"; }
  /// Ignores the deadline.
  [[nodiscard]] planner::PolicyPlan plan(const planner::PlanningProblem& problem,
                                         std::optional<double> deadline_s) const override;

 private:
  double unit_s_;
};

}  // namespace lowgear::policies
