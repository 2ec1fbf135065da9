#pragma once

#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/work/operators.h"

namespace lowgear::estimator {

/// Times of collectives from latency and bandwidth of the links, as NCCL runs them: rings (large messages) or double
/// binary trees (small ones, many nodes), all GPUs of a group on a node using their adapters together.
class LinkCosts final : public CollectiveCosts {
 public:
  explicit LinkCosts(const Cluster& cluster) : cluster_(cluster) {}
  [[nodiscard]] WorkCost cost(CollectiveKind kind, double bytes, const RankGroup& group) const override;

 private:
  [[nodiscard]] double ring_bytes_per_s(CollectiveKind kind, const RankGroup& group) const;
  [[nodiscard]] double ring_s(CollectiveKind kind, double steps, double sent_bytes, const RankGroup& group) const;
  [[nodiscard]] double tree_s(double bytes, const RankGroup& group) const;
  [[nodiscard]] double all_to_all_s(double bytes, const RankGroup& group) const;

  Cluster cluster_;
};

}  // namespace lowgear::estimator
