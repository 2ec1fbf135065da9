#pragma once

#include <cstdint>

#include "training/launcher/config/train_config.h"

namespace lowgear::trainer {

/// The learning rate of a step (counted from 0): rises linearly over the warm-up, of which the last step has the
/// highest rate, then falls along half a cosine from there towards the least, which it would have at step `steps`: the
/// first that is not taken (Loshchilov and Hutter 2017; PyTorch's CosineAnnealingLR).
[[nodiscard]] double learning_rate(const launcher::OptimizerConfig& config, std::int64_t step, std::int64_t steps);

}  // namespace lowgear::trainer
