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
          .norm_epsilon = 1e-5,
          .rope_theta = 10000,
          .rope_scaling = {},
          .tied_embeddings = tied,
          .attention_bias = false,
          .mlp_bias = false};
}

inline model::ModelConfig tiny_gpt2() {
  return {.architecture = model::Architecture::gpt2,
          .vocabulary = 64,
          .hidden = 32,
          .layers = 8,
          .heads = 4,
          .kv_heads = 4,
          .head_dim = 8,
          .intermediate = 128,
          .max_positions = 64,
          .norm_epsilon = 1e-5,
          .rope_theta = 10000,
          .rope_scaling = {},
          .tied_embeddings = true,
          .attention_bias = true,
          .mlp_bias = true};
}

}  // namespace lowgear::trainer
