#pragma once

#include "training/launcher/config/train_config.h"

namespace lowgear::launcher {

/// A job of a small Llama with 12 blocks on `pp` stages.
inline TrainConfig twelve_blocks(int pp) {
  TrainConfig config;
  config.model = {.vocabulary = 64,
                  .hidden = 64,
                  .layers = 12,
                  .heads = 4,
                  .kv_heads = 2,
                  .head_dim = 16,
                  .intermediate = 96,
                  .max_positions = 64};
  config.parallel.pp = pp;
  config.microbatches = 8;
  config.sequence_length = 32;
  return config;
}

}  // namespace lowgear::launcher
