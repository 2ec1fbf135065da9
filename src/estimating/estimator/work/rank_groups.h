#pragma once

#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/work/operators.h"

/// Groups of ranks that communicate, with their places on nodes (ParallelLayout defines the order of ranks).

namespace lowgear::estimator {

[[nodiscard]] RankGroup tensor_group(const TrainingJob& job);
[[nodiscard]] RankGroup context_group(const TrainingJob& job);
[[nodiscard]] RankGroup expert_group(const TrainingJob& job);

/// Ranks that have the same weights.
struct ReplicaGroups {
  RankGroup shards;  ///< those that ZeRO divides states among; one rank with ZeRO 0
  RankGroup copies;  ///< those with the same shard
};

/// Of weights that dp times cp ranks have.
[[nodiscard]] ReplicaGroups replica_groups(const TrainingJob& job);

/// Of experts, which dp times cp over ep ranks have.
[[nodiscard]] ReplicaGroups expert_replica_groups(const TrainingJob& job);

/// The two ranks that pass activations from virtual stage `stage` to the next one.
[[nodiscard]] RankGroup neighbour_group(const TrainingJob& job, int stage);

}  // namespace lowgear::estimator
