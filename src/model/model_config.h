#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lowgear {

enum class Architecture : unsigned char { llama, gpt2 };

/// How the frequencies of rotary embeddings are changed for longer texts.
struct RopeScaling {
  enum class Kind : unsigned char { none, linear, llama3 };
  Kind kind = Kind::none;
  double factor = 1;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  std::int64_t original_max_positions = 8192;
};

/// The shape of a decoder-only language model.
struct ModelConfig {
  Architecture architecture = Architecture::llama;
  std::int64_t vocabulary = 0;
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< grouped-query attention when fewer than heads
  std::int64_t head_dim = 0;
  std::int64_t intermediate = 0;
  std::int64_t max_positions = 0;
  double norm_epsilon = 1e-5;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  bool tied_embeddings = false;
  bool attention_bias = false;
  bool mlp_bias = false;
};

}  // namespace lowgear
