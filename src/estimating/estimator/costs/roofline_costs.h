#pragma once

#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/work/operators.h"

namespace lowgear::estimator {

/// Times of operators from what a GPU can do at most and how much of that its kernels reach (GpuModel::efficiency): the
/// longer of computation and memory traffic, plus the launch. Matrix products run in tiles, a wave of them at a time,
/// on the multiprocessors: what does not fill the last wave is lost.
class RooflineCosts final : public OperatorCosts {
 public:
  explicit RooflineCosts(GpuModel gpu);
  [[nodiscard]] WorkCost cost(const Operator& op) const override;

 private:
  /// By what limits the work.
  struct Split {
    double core_s = 0;
    double memory_s = 0;
  };
  [[nodiscard]] double memory_s(const Operator& op) const;
  [[nodiscard]] Split linear_s(const Operator& op) const;
  [[nodiscard]] Split batched_s(const Operator& op) const;
  [[nodiscard]] double fused_dropout_s(const Operator& op) const;
  [[nodiscard]] Split experts_s(const Operator& op) const;

  GpuModel gpu_;
};

}  // namespace lowgear::estimator
