#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planning/planner/policies/policy.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/schedule.h"

namespace lowgear::workflow {

/// A pipeline as everything in this module takes it.
struct ProfiledPipeline {
  profile::StageProfile profile;         ///< by virtual stage of the schedule, split where the schedule is
  schedule::Schedule schedule;           ///< computations only
  schedule::PipelineDag dag;             ///< of `schedule`
  std::vector<double> blocking_power_w;  ///< by rank: what one GPU draws while it waits
  std::vector<std::string> doubts = {};  ///< why its profile may be wrong (planning/profile/plausibility.h)

  /// Refers to this.
  [[nodiscard]] planner::PlanningProblem problem(Progress* progress = nullptr) const {
    return {&schedule, &dag, &profile, blocking_power_w, progress};
  }
};

}  // namespace lowgear::workflow
