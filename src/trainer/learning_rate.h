#pragma once

#include <cstdint>

#include "launcher/train_config.h"

namespace lowgear {

/// The learning rate of a step (counted from 0): rises linearly over the warm-up, then falls along half a cosine to the
/// least at the last of `steps` (Loshchilov and Hutter 2017; GPT-3's schedule).
[[nodiscard]] double learning_rate(const OptimizerConfig& config, std::int64_t step, std::int64_t steps);

}  // namespace lowgear
