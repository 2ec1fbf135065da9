#include "trainer/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lowgear {

double learning_rate(const OptimizerConfig& config, std::int64_t step, std::int64_t steps) {
  if (step < config.warmup_steps) {
    return config.learning_rate * static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps);
  }
  const auto length = static_cast<double>(std::max<std::int64_t>(steps - 1 - config.warmup_steps, 1));
  const double progress = std::min(static_cast<double>(step - config.warmup_steps) / length, 1.0);
  const double share = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return config.min_learning_rate + share * (config.learning_rate - config.min_learning_rate);
}

}  // namespace lowgear
