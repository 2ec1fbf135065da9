#pragma once

#include <cstdint>
#include <vector>

#include "base/core/formats/json.h"
#include "planning/adapt/freezing/weight_gradient_rotation.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/model/parameter_store.h"

namespace lowgear::trainer {

/// The weight gradients that each iteration leaves out under the configured budget, after the warm-up. Every rank knows
/// them without a message.
class GradientDrops {
 public:
  using Drops = adapt::freezing::WeightGradientRotation::Drops;

  /// The configuration has a budget, and outlives this.
  explicit GradientDrops(const launcher::TrainConfig& config);

  /// The products that the iteration leaves out, or would leave out as a placebo; the iteration before it is done.
  [[nodiscard]] Drops at(std::int64_t iteration) const;
  /// The same for the model, with how often each was left out before. As a placebo: nothing.
  [[nodiscard]] WeightGradientDrops for_model(std::int64_t iteration) const;
  /// The iteration is done.
  void after_update(std::int64_t iteration);

  [[nodiscard]] Json save() const;
  /// What `save` returned, also with another budget: turns and credit continue. Throws InputError with the JSON path.
  void restore(const JsonView& saved);

 private:
  const launcher::TrainConfig* config_;
  adapt::freezing::WeightGradientRotation rotation_;
  std::vector<std::int64_t> skipped_;  ///< iterations that left the rotation's operation out
};

}  // namespace lowgear::trainer
