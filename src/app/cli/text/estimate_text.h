#pragma once

#include <optional>
#include <string>

#include "base/core/formats/json.h"
#include "estimating/estimator/iteration/iteration_estimate.h"
#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/memory/memory_estimate.h"

namespace lowgear::cli {

/// What `lowgear estimate` says of a job. All of it is *estimated*.
struct JobEstimate {
  estimator::TrainingJob job;
  estimator::MemoryEstimate memory;
  std::optional<estimator::MemoryOverflow> overflow;  ///< where it does not fit
  estimator::IterationEstimate iteration;
};

/// Everything for people; that the job does not fit comes first.
[[nodiscard]] std::string estimate_text(const JobEstimate& estimate);

/// The same as an object of the format `lowgear.estimate/1` (docs/formats.md).
[[nodiscard]] Json estimate_json(const JobEstimate& estimate);

}  // namespace lowgear::cli
