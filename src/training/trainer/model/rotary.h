#pragma once

#include "estimating/model/model_config.h"
#include "training/trainer/transport/compat.h"

namespace lowgear::trainer {

/// Angles of the rotary position embedding (Su et al. 2021), as cosines and sines for the kernels. Scaling of the
/// frequencies as `config.rope_scaling` says (linear, or Llama 3.1's).
class RotaryAngles {
 public:
  explicit RotaryAngles(const model::ModelConfig& config) : config_(&config) {}

  /// For positions 0 to `time` - 1 on a device: fp32, [time, head_dim / 2].
  void prepare(std::int64_t time, at::Device device);
  [[nodiscard]] const at::Tensor& cosine() const { return cosine_; }
  [[nodiscard]] const at::Tensor& sine() const { return sine_; }

 private:
  const model::ModelConfig* config_;
  at::Tensor cosine_;
  at::Tensor sine_;
};

/// Angle per position of every pair of dimensions, [head_dim / 2], fp32.
[[nodiscard]] at::Tensor rotary_frequencies(const model::ModelConfig& config);

}  // namespace lowgear::trainer
