#pragma once

#include "model/model_config.h"
#include "trainer/compat.h"

namespace lowgear {

/// Rotary position embedding (Su et al. 2021) with the halves laid out as Hugging Face's Llama has them: dimension i
/// turns with dimension i + head_dim / 2. Scaling of the frequencies as `config.rope_scaling` says (linear, or Llama
/// 3.1's).
class Rotary {
 public:
  explicit Rotary(const ModelConfig& config) : config_(&config) {}
  /// Turns [batch, heads, time, head_dim] by each position's angle.
  [[nodiscard]] at::Tensor operator()(const at::Tensor& input);

 private:
  void prepare(const at::Tensor& like);

  const ModelConfig* config_;
  at::Tensor cosine_;  ///< [time, head_dim]
  at::Tensor sine_;
};

/// Angle per position of every pair of dimensions, [head_dim / 2], fp32.
[[nodiscard]] at::Tensor rotary_frequencies(const ModelConfig& config);

}  // namespace lowgear
