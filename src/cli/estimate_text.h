#pragma once

#include <optional>
#include <string>

#include "core/json.h"
#include "estimator/iteration_estimate.h"
#include "estimator/memory_estimate.h"
#include "estimator/training_job.h"

namespace lowgear {

/// What `lowgear estimate` says of a job. All of it is *estimated*.
struct JobEstimate {
  TrainingJob job;
  MemoryEstimate memory;
  std::optional<MemoryOverflow> overflow;  ///< where it does not fit
  IterationEstimate iteration;
};

/// Everything for people; that the job does not fit comes first.
[[nodiscard]] std::string estimate_text(const JobEstimate& estimate);

/// The same as an object of the format `lowgear.estimate/1` (docs/formats.md).
[[nodiscard]] Json estimate_json(const JobEstimate& estimate);

}  // namespace lowgear
