#pragma once

#include <string>

#include "app/cli/runs/joint_plan_run.h"
#include "base/core/formats/json.h"
#include "planning/workflow/joint_plan.h"

namespace lowgear::cli {

/// A plan's number, deadline, time, energy, bound and switches.
[[nodiscard]] Json plan_figures_json(const workflow::PlanFigures& plan);

/// What planning with a free order has written to the folder `out`, for people and for programs.
[[nodiscard]] std::string joint_plan_text(const std::string& out, const workflow::JointPlanResult& result);
[[nodiscard]] Json joint_plan_json(const std::string& out, const JointPlanSummary& summary);

/// The plan of which a joint plan of changed work takes the place.
struct ReplannedFrom {
  std::string name;  ///< of its order
  int microbatches = 0;
  simulator::PipelineFigures figures;  ///< of an iteration, *planned*
};

/// What it was, and what the new plan is against it per microbatch, as they may have different numbers of those.
[[nodiscard]] std::string replanned_text(const ReplannedFrom& before, const workflow::JointPlanResult& result);
/// Members `before` and `per_microbatch`.
[[nodiscard]] Json replanned_json(const ReplannedFrom& before, const workflow::JointPlanResult& result);

}  // namespace lowgear::cli
