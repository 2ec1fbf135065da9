#include "training/trainer/model/block_linears.h"

namespace lowgear::trainer {

std::vector<std::int64_t> linear_weights(const model::ModelConfig& config) {
  const std::int64_t mlp_inputs = config.architecture == model::Architecture::llama ? 2 : 1;
  return {config.hidden * (config.heads + 2 * config.kv_heads) * config.head_dim,
          config.heads * config.head_dim * config.hidden, mlp_inputs * config.hidden * config.intermediate,
          config.intermediate * config.hidden};
}

}  // namespace lowgear::trainer
