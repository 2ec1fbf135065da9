#pragma once

#include <optional>
#include <vector>

#include "planning/plan/plan.h"
#include "planning/planner/verifier/joint_folder.h"
#include "planning/planner/verifier/verify.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/schedule.h"
#include "planning/simulator/cluster.h"
#include "planning/workflow/plan_tables.h"
#include "planning/workflow/run_file.h"

namespace lowgear::workflow {

/// What an output folder of `lowgear plan` holds, and what the report of a run is made from.
struct RunContents {
  RunFile run;
  profile::StageProfile profile;
  schedule::Schedule schedule;
  std::vector<simulator::PipelineFigures> frontier;     ///< the one that is proven, or the joint one
  std::vector<int> order_of_point = {};                 ///< by point of a joint frontier: number of its order
  std::vector<simulator::PipelineFigures> lower_bound;  ///< empty: the frontier itself. Of all orders, if joint
  std::vector<PlanFigures> plans;
  int chosen_plan = 0;  ///< number of `chosen`
  plan::Plan chosen;
  std::optional<planner::VerifyReport> verified = {};  ///< absent when nothing was verified
};

/// The contents of a folder's texts, with the plan chosen that `plan_to_show` names; `lower_bound` where the folder has
/// that table. Throws InputError when something is missing, cannot be read or contradicts something else.
[[nodiscard]] RunContents read_run_contents(const planner::PlanFolder& files,
                                            const std::optional<planner::PlanFolder::File>& lower_bound);

/// The same of a run with a free order: profile and schedule are those of the chosen plan.
[[nodiscard]] RunContents read_joint_contents(const planner::JointFolder& files);

}  // namespace lowgear::workflow
