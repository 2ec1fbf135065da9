#pragma once

#include <string_view>
#include <vector>

#include "estimating/estimator/iteration/iteration_estimate.h"
#include "estimating/estimator/job/training_job.h"

namespace lowgear::estimator {

/// A share of an iteration's time on one GPU.
struct TimePart {
  std::string_view name;
  double time_s = 0;
};

inline constexpr std::string_view kWaitingPart = "waiting in the pipeline";
inline constexpr std::string_view kGradientsPart = "gradients";
inline constexpr std::string_view kOptimizerPart = "optimizer";

/// Where the time of an iteration goes on a GPU of a pipeline rank: every kind of work of its virtual stages over all
/// microbatches, then waiting, sums over replicas and the optimizer. Sums to the iteration's time.
[[nodiscard]] std::vector<TimePart> time_breakdown(const TrainingJob& job, const IterationEstimate& estimate, int rank);

/// The pipeline rank with most work: the one that the others wait for.
[[nodiscard]] int busiest_rank(const TrainingJob& job, const IterationEstimate& estimate);

}  // namespace lowgear::estimator
