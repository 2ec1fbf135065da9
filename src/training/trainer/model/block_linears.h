#pragma once

#include <cstdint>
#include <vector>

#include "estimating/model/model_config.h"

namespace lowgear::trainer {

/// The linear layers of a block, each used as one product of matrices.
enum class BlockLinear : std::int8_t {
  none = -1,     ///< of a parameter: it belongs to none
  attention_in,  ///< queries, keys and values
  attention_out,
  mlp_in,  ///< Llama: gate and up
  mlp_out
};
inline constexpr std::int64_t kBlockLinears = 4;

/// Weights of each, of the whole model, in the order of BlockLinear: multiply-adds of a token.
[[nodiscard]] std::vector<std::int64_t> linear_weights(const model::ModelConfig& config);

/// Which weight gradients a step leaves out, by operation: block * kBlockLinears + linear. Both empty: none, ever.
struct WeightGradientDrops {
  std::vector<bool> dropped;
  std::vector<std::int64_t> skipped;  ///< steps before this one that left it out
};

}  // namespace lowgear::trainer
