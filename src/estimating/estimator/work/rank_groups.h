#pragma once

#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/work/operators.h"

/// Groups of ranks that communicate, with their places on nodes (ParallelLayout defines the order of ranks).

namespace lowgear::estimator {

[[nodiscard]] RankGroup tensor_group(const TrainingJob& job);
[[nodiscard]] RankGroup context_group(const TrainingJob& job);
[[nodiscard]] RankGroup expert_group(const TrainingJob& job);

/// Replicas of the same weights: dp times cp.
[[nodiscard]] RankGroup replica_group(const TrainingJob& job);

/// Replicas of the same experts: dp times cp over ep.
[[nodiscard]] RankGroup expert_replica_group(const TrainingJob& job);

/// The two ranks that pass activations from virtual stage `stage` to the next one.
[[nodiscard]] RankGroup neighbour_group(const TrainingJob& job, int stage);

}  // namespace lowgear::estimator
