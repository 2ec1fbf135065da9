#pragma once

#include "estimating/model/model_config.h"

namespace lowgear::trainer {

/// A small Llama with grouped-query attention.
inline model::ModelConfig tiny_llama(bool tied = false) {
  return {.architecture = model::Architecture::llama,
          .vocabulary = 64,
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
  model::ModelConfig config = tiny_llama(true);
  config.architecture = model::Architecture::gpt2;
  config.kv_heads = config.heads;
  config.intermediate = 4 * config.hidden;
  config.attention_bias = true;
  config.mlp_bias = true;
  return config;
}

}  // namespace lowgear::trainer
