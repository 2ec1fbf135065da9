#pragma once

#include <string>
#include <vector>

#include "estimating/estimator/iteration/job_estimate.h"
#include "estimating/estimator/job/training_job.h"

namespace lowgear::cli {

/// Bandwidths that the job assumes: `300 GB/s within nodes, 25 between`. Empty for a job of one GPU.
[[nodiscard]] std::string links_text(const estimator::TrainingJob& job);

/// Communication that the job has and that runs concurrently with computation: `gradients, tensor_gradients`.
[[nodiscard]] std::string overlapped_text(const estimator::TrainingJob& job);

/// Clocks of the passes at full clocks where the power limit binds: `1347 to 1369 MHz by pass, not 1410: the power
/// limit is 400 W`. Empty where every pass runs at the highest clock.
[[nodiscard]] std::string limited_clocks_text(const estimator::JobEstimate& estimate);

/// Headline and remedies of a job whose memory exceeds the capacity or is near it.
struct MemoryVerdict {
  std::string headline;               ///< empty where the job fits and is not near the limit
  std::vector<std::string> remedies;  ///< `with --zero 2 70.1 GiB, which fits, +1.2 % time`
};

/// The two changes that cost least time where some bring the job within the capacity, otherwise all that help.
[[nodiscard]] MemoryVerdict memory_verdict(const estimator::JobEstimate& estimate);

/// GiB with one digit after the point.
[[nodiscard]] std::string gib_text(double bytes);

/// Seconds with at most three digits after the point, and at most six significant digits.
[[nodiscard]] std::string seconds_text(double time_s);

}  // namespace lowgear::cli
