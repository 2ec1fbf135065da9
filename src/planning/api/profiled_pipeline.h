#pragma once

#include <string>
#include <vector>

#include "base/core/progress.h"
#include "planning/planner/policies/policy.h"
#include "planning/profile/predicted_rows.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/schedule.h"

namespace lowgear::api {

/// A pipeline with its profile, schedule and graph: the input of every function of this module.
struct ProfiledPipeline {
  profile::StageProfile profile;                      ///< by virtual stage of the schedule, split where the schedule is
  schedule::Schedule schedule;                        ///< computations only
  schedule::PipelineDag dag;                          ///< of `schedule`
  std::vector<double> blocking_power_w;               ///< by rank: power of one GPU that waits
  std::vector<profile::PredictedRow> predicted = {};  ///< rows of `profile` that no GPU measured
  bool simulated = false;                             ///< the others are of simulated GPUs
  std::vector<std::string> doubts = {};  ///< why its profile may be wrong (planning/profile/plausibility.h)

  /// The problem refers to this pipeline, which must outlive it.
  [[nodiscard]] planner::PlanningProblem problem(Progress* progress = nullptr) const {
    return {&schedule, &dag, &profile, blocking_power_w, progress};
  }
};

}  // namespace lowgear::api
