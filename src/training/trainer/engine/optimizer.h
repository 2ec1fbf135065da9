#pragma once

#include <cstdint>

#include "training/launcher/train_config.h"
#include "training/trainer/model/parameter_store.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// What one rank holds of the optimizer's state: a stretch of the store's flat buffers, all of it without ZeRO-1, else
/// 1/dp of it.
struct OptimizerState {
  std::int64_t begin = 0;  ///< first element of the buffers
  at::Tensor master;       ///< fp32 values; the store's own where those are fp32
  at::Tensor mean;         ///< AdamW's first moment
  at::Tensor variance;     ///< and second
};

/// AdamW (Loshchilov and Hutter 2019) in fp32 on the flat buffers, over the gradients of all replicas; with ZeRO-1
/// (Rajbhandari et al. 2020) each replica updates its stretch and all gather the values.
class AdamW {
 public:
  /// Values must be loaded by now. With ZeRO-1 the buffers' length is a multiple of the number of replicas.
  AdamW(ParameterStore& store, const launcher::OptimizerConfig& config, Communicators& ranks);

  /// The gradients are summed over the replicas by now (GradientReducer). Clips them by the global norm over all ranks,
  /// updates, and sets the gradients to zero. Returns the norm before clipping; when it is not finite, nothing is
  /// updated.
  double step(double learning_rate);

  [[nodiscard]] std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  [[nodiscard]] OptimizerState& state() { return state_; }
  /// Gives the store the master values: after they were loaded.
  void publish();

 private:
  [[nodiscard]] double global_norm() const;
  void update(double learning_rate, double gradient_scale);
  [[nodiscard]] bool shared() const { return config_.zero1 && ranks_->data->size() > 1; }

  ParameterStore* store_;
  launcher::OptimizerConfig config_;
  Communicators* ranks_;
  OptimizerState state_;
  at::Tensor gradients_;  ///< this rank's stretch, summed over the replicas
  std::int64_t steps_ = 0;
};

}  // namespace lowgear::trainer
