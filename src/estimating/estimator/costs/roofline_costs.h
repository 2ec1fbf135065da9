#pragma once

#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/work/operators.h"

namespace lowgear::estimator {

/// Times of operators from a GPU's peak rates and the share of them that its kernels reach (GpuModel::efficiency): the
/// longer of computation and memory traffic, plus the launch. Matrix products run in waves of tiles on the
/// multiprocessors; the unfilled part of the last wave is lost.
class RooflineCosts final : public OperatorCosts {
 public:
  explicit RooflineCosts(GpuModel gpu);
  [[nodiscard]] WorkCost cost(const Operator& op) const override;

 private:
  /// Time by limit: multiprocessors, memory.
  struct Split {
    double core_s = 0;
    double memory_s = 0;
  };
  [[nodiscard]] double memory_s(const Operator& op) const;
  [[nodiscard]] Split linear_s(const Operator& op) const;
  [[nodiscard]] Split batched_s(const Operator& op) const;
  [[nodiscard]] double fused_attention_s(const Operator& op) const;
  [[nodiscard]] double fused_dropout_s(const Operator& op) const;
  [[nodiscard]] Split experts_s(const Operator& op) const;

  GpuModel gpu_;
};

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
