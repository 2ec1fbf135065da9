#pragma once

#include <cstdint>

#include "estimating/model/model_config.h"
#include "training/trainer/transport/compat.h"

namespace lowgear::trainer {

/// Angles of the rotary position embedding (Su et al. 2021), as cosines and sines for the kernels, with the scaling of
/// the frequencies that `config.rope_scaling` says.
class RotaryAngles {
 public:
  explicit RotaryAngles(const model::ModelConfig& config) : config_(&config) {}

  /// For positions 0 to `time` - 1 on a device, or those of them that `positions` lists: fp32, [time, turned
  /// dimensions / 2].
  void prepare(std::int64_t time, at::Device device, const at::Tensor& positions = {});
  [[nodiscard]] const at::Tensor& cosine() const { return cosine_; }
  [[nodiscard]] const at::Tensor& sine() const { return sine_; }

 private:
  /// Of all positions.
  void fill_tables(std::int64_t time, at::Device device);

  const model::ModelConfig* config_;
  at::Tensor cosine_table_;
  at::Tensor sine_table_;
  at::Tensor cosine_;
  at::Tensor sine_;
};

/// Angle per position of every pair of dimensions in sequences of `time` tokens, [turned dimensions / 2], fp32.
[[nodiscard]] at::Tensor rotary_frequencies(const model::ModelConfig& config, std::int64_t time);

/// Turns the first dimensions of heads [..., time, head_dim] in pairs: neighbours, or those half of the turned
/// dimensions apart. Composed of libtorch's operations, for what kernels::split_and_rotate cannot do.
[[nodiscard]] at::Tensor turned(const at::Tensor& heads, const RotaryAngles& angles, bool interleaved);

}  // namespace lowgear::trainer
