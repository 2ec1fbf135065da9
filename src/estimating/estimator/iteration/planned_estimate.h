#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/core/progress.h"
#include "estimating/estimator/iteration/job_estimate.h"
#include "estimating/estimator/iteration/planned_job.h"
#include "planning/workflow/deadlines.h"

namespace lowgear::estimator {

/// How to plan a job from its estimate; as it stands: full clocks, no later than they, and least energy.
struct EstimatePlanOptions {
  workflow::Deadlines deadline = {};            ///< one more plan; `plans` is not used
  std::string policy{planner::kLowgearPolicy};  ///< another than Lowgear's makes one more plan
};

/// One way to clock the job.
struct ClockedJob {
  std::string name;   ///< `full clocks`, `no later`, ...
  std::string basis;  ///< `estimated`, `planned`, `replayed`
  JobFigures figures;
};

/// What clocks make of a job, from estimates alone. One iteration of all GPUs.
struct PlannedEstimate {
  std::vector<ClockedJob> rows;      ///< full clocks first
  std::vector<JobFigures> frontier;  ///< vertices, fastest first
  std::string note;                  ///< of the policy; may be empty
};

/// Plans a job. `available_bytes` of memory; empty: not known. Throws InputError when the deadline cannot be met, there
/// is no such policy or memory does not hold the plan, and what `progress` throws.
[[nodiscard]] PlannedEstimate plan_estimate(const JobEstimate& estimate, const EstimatePlanOptions& options,
                                            std::optional<std::uint64_t> available_bytes, Progress& progress);

}  // namespace lowgear::estimator
