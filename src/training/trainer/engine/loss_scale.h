#pragma once

#include "training/launcher/checkpoint_manifest.h"
#include "training/launcher/config/train_config.h"

namespace lowgear::trainer {

/// The dynamic loss scale of fp16 (Micikevicius et al. 2018, "Mixed Precision Training"), by the rule of PyTorch's
/// GradScaler: doubled after a number of steps in a row with finite gradients, halved after a step without, which the
/// optimizer skips. The norm of the gradients is that of all ranks, so that all have the same scale.
class LossScale {
 public:
  explicit LossScale(const launcher::Fp16Config& config)
      : state_{.scale = config.loss_scale}, growth_steps_(config.growth_steps) {}

  /// A power of two: it changes no bit of the gradients' mantissas.
  [[nodiscard]] double scale() const { return state_.scale; }
  /// After each step.
  void observe(bool finite);
  /// Gradients were not finite even at the lowest scale.
  [[nodiscard]] bool exhausted() const { return state_.scale < launcher::kLowestLossScale; }

  [[nodiscard]] const launcher::LossScaleState& state() const { return state_; }
  void restore(const launcher::LossScaleState& state) { state_ = state; }

 private:
  launcher::LossScaleState state_;
  std::int64_t growth_steps_;
};

}  // namespace lowgear::trainer
