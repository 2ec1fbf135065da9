#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planning/api/comparison.h"
#include "planning/planner/policies/policy.h"
#include "rivals/policies/envpipe/envpipe_config.h"
#include "rivals/policies/perseus/exponential_fit.h"

namespace lowgear::policies {

/// Settings of the published policies that have some.
struct PolicySettings {
  PerseusOptions perseus = {};  ///< `perseus`; `envpipe-offline` takes its unit of time
  EnvPipeOptions envpipe = {};
};

/// Lowgear's policies and the published ones: Zeus', EnvPipe's and Perseus'.
[[nodiscard]] planner::PolicyTable published_policies(const PolicySettings& settings = {});

/// The saving of each row as the evaluation of Perseus counts it (`perseus_intrinsic_saving_pct`), at Perseus' own time
/// and with the policy's own energy, or the replayed one where it has none. To compare with published figures. Empty
/// for Lowgear's rows, and where no row is Perseus'.
[[nodiscard]] std::vector<std::optional<double>> published_savings_pct(std::span<const api::ComparisonRow> rows,
                                                                       const planner::PlanningProblem& problem);

}  // namespace lowgear::policies
