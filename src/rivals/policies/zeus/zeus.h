#pragma once

#include "planning/planner/policies/policy.h"

namespace lowgear::policies {

// The two baselines that Perseus' evaluation (SOSP'24) takes from Zeus (NSDI'23), with clocks in place of Zeus' power
// limits, because a stage profile is taken at locked clocks. Both try few plans and pick the one of least replayed
// energy within the deadline; without a deadline, within the time at the highest clocks, or else the fastest.

/// One clock for all GPUs.
class ZeusGlobalPolicy final : public planner::Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "zeus-global"; }
  [[nodiscard]] planner::PolicyPlan plan(const planner::PlanningProblem& problem,
                                         std::optional<double> deadline_s) const override;
};

/// One clock per stage. For every clock of the stage whose forward takes longest at the highest clocks, each other
/// stage takes, of the clocks that are not above it, the one whose forward time is nearest.
class ZeusPerStagePolicy final : public planner::Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "zeus-per-stage"; }
  [[nodiscard]] planner::PolicyPlan plan(const planner::PlanningProblem& problem,
                                         std::optional<double> deadline_s) const override;
};

}  // namespace lowgear::policies
