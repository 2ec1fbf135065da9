#pragma once

#include "estimating/model/model_config.h"

namespace lowgear::trainer {

/// A small Llama with grouped-query attention.
inline model::ModelConfig tiny_llama(bool tied = false) {
  return {.vocabulary = 64,
          .hidden = 32,
          .layers = 8,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 8,
          .intermediate = 48,
          .max_positions = 64,
          .tied_embeddings = tied};
}

inline model::ModelConfig tiny_gpt2() {
  model::ModelConfig config = model::gpt_model(32, 8, 4, 64, 64);
  config.tied_embeddings = true;
  return config;
}

}  // namespace lowgear::trainer
