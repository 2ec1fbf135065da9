#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "estimating/model/model_config.h"
#include "training/trainer/transport/compat.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// What is added to the scores of attention, fp32 [1 or heads of this rank, time, time]: minus infinity where a
/// position is not seen, and ALiBi. All layers of a rank with the same window use one tensor.
class AttentionBiases {
 public:
  struct Shape {
    std::int64_t window = 0;  ///< positions that each one sees, itself included; 0: all before it
    std::int64_t time = 0;
    bool causal = true;  ///< no position sees those after it
  };

  AttentionBiases(const model::ModelConfig& config, const Collective& group) : config_(&config), group_(&group) {}

  /// The tensor is kept until one of another length is asked for.
  [[nodiscard]] const at::Tensor& get(const Shape& shape, at::Device device);
  /// Of T5, kept likewise: int64 [time, time], the bucket of each pair of tokens in an encoder, or a causal decoder.
  [[nodiscard]] const at::Tensor& relative_buckets(const Shape& shape, at::Device device);

 private:
  [[nodiscard]] at::Tensor made(const Shape& shape, at::Device device) const;
  [[nodiscard]] at::Tensor made_buckets(const Shape& shape) const;

  const model::ModelConfig* config_;
  const Collective* group_;
  std::map<std::pair<bool, std::int64_t>, at::Tensor> kept_;  ///< by causal and window
  std::map<bool, at::Tensor> kept_buckets_;                   ///< by causal
};

}  // namespace lowgear::trainer
