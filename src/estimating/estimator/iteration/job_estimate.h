#pragma once

#include <optional>

#include "estimating/estimator/iteration/iteration_estimate.h"
#include "estimating/estimator/iteration/job_costs.h"
#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/memory/memory_estimate.h"

namespace lowgear::estimator {

/// What is known of a job that has not run. All of it is *estimated*.
struct JobEstimate {
  TrainingJob job;
  MemoryEstimate memory;
  std::optional<MemoryOverflow> overflow;  ///< where it does not fit
  IterationEstimate iteration;
};

/// Time, energy and memory of a job, with samples where there are any. Throws as JobCosts does.
[[nodiscard]] JobEstimate estimate_job(TrainingJob job, const SampleSet& samples);

}  // namespace lowgear::estimator
