#include "training/trainer/engine/learning_rate.h"

#include <cmath>
#include <numbers>

namespace lowgear::trainer {

double learning_rate(const launcher::OptimizerConfig& config, std::int64_t step, std::int64_t steps) {
  if (step < config.warmup_steps) {
    return config.learning_rate * static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps);
  }
  if (step >= steps) return config.min_learning_rate;
  const double progress =
      static_cast<double>(step - config.warmup_steps) / static_cast<double>(steps - config.warmup_steps);
  const double share = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return config.min_learning_rate + share * (config.learning_rate - config.min_learning_rate);
}

}  // namespace lowgear::trainer
