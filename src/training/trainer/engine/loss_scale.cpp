#include "training/trainer/engine/loss_scale.h"

#include <algorithm>

namespace lowgear::trainer {

void LossScale::observe(bool finite) {
  if (!finite) {
    state_ = {.scale = state_.scale / 2};
  } else if (++state_.good_steps >= growth_steps_) {
    state_ = {.scale = std::min(state_.scale * 2, launcher::kHighestLossScale)};
  }
}

}  // namespace lowgear::trainer
