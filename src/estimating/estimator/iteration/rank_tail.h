#pragma once

#include <cstddef>
#include <vector>

#include "estimating/estimator/iteration/iteration_estimate.h"
#include "estimating/estimator/work/rank_groups.h"
#include "estimating/estimator/work/rank_parameters.h"

namespace lowgear::estimator {

/// What one pipeline rank does after its last backward.
struct RankTail {
  double gradients_s = 0;
  double optimizer_s = 0;
  double update_wait_s = 0;  ///< the part of optimizer_s in which the GPU waits for its CPU's update
};

/// Costs of the work after the last backward: sums of gradients over replicas, update, gathering of updated weights.
class Tail {
 public:
  Tail(const TrainingJob& job, const std::vector<StageEstimate>& stages, const CostSources& sources);
  [[nodiscard]] RankTail of_rank(std::size_t rank) const;

 private:
  /// Time of a collective over replicas of so many parameters.
  using ReplicaTime = double (Tail::*)(double parameters, const ReplicaGroups& replicas) const;
  /// Of sums of gradients.
  [[nodiscard]] double sums_s(double parameters, const ReplicaGroups& replicas) const;
  /// Of gathering weights.
  [[nodiscard]] double gather_s(double parameters, const ReplicaGroups& replicas) const;
  /// Time of a collective over all replicas of the rank's parameters that its passes of one microbatch do not hide. The
  /// last bucket, taken to be a layer's or the embedding's, is never hidden: backwards end with it.
  [[nodiscard]] double exposed_s(ReplicaTime replica_time, std::size_t rank, WorkCost StageEstimate::*pass) const;

  const TrainingJob& job_;
  const std::vector<StageEstimate>& stages_;
  const CostSources& sources_;
  std::vector<RankParameters> parameters_;
  ReplicaGroups replicas_;
  ReplicaGroups expert_replicas_;
};

}  // namespace lowgear::estimator
