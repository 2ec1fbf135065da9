#pragma once

#include <optional>

#include "app/cli/arguments/joint_arguments.h"
#include "app/cli/runs/plan_run.h"
#include "base/core/files/file.h"
#include "base/core/progress.h"
#include "planning/planner/verifier/verify.h"
#include "planning/workflow/joint_plan.h"

namespace lowgear::cli {

/// What planning with a free order has made, for the summary.
struct JointPlanSummary {
  workflow::JointPlanResult result;
  std::optional<planner::VerifyReport> verified;  ///< absent where that takes long
};

/// Plans orders and clocks together, and writes every file into `folder`, which the caller commits. Throws InputError,
/// and Error when the plans do not pass verification.
[[nodiscard]] JointPlanSummary make_joint_plans(const PlanArguments& arguments, JointInput input,
                                                StagedDirectory& folder, Progress& progress);

}  // namespace lowgear::cli
