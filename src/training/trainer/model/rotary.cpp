#include "training/trainer/model/rotary.h"

#include <cmath>
#include <numbers>
#include <vector>

namespace lowgear::trainer {
namespace {

/// Llama 3.1: long waves are stretched by the factor, short ones left alone, those between blended. As Hugging Face's
/// `_compute_llama3_parameters`.
float llama3_scaled(float frequency, const model::RopeScaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto original = static_cast<double>(scaling.original_max_positions);
  if (wavelength < original / scaling.high_frequency_factor) return frequency;
  if (wavelength > original / scaling.low_frequency_factor) return static_cast<float>(frequency / scaling.factor);
  const double smooth = (original / wavelength - scaling.low_frequency_factor) /
                        (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return static_cast<float>((1 - smooth) * frequency / scaling.factor + smooth * frequency);
}

}  // namespace

at::Tensor rotary_frequencies(const model::ModelConfig& config) {
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < config.head_dim; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(config.head_dim);
    auto frequency = static_cast<float>(1.0 / std::pow(config.rope_theta, exponent));
    if (config.rope_scaling.kind == model::RopeScaling::Kind::linear) {
      frequency = static_cast<float>(frequency / config.rope_scaling.factor);
    } else if (config.rope_scaling.kind == model::RopeScaling::Kind::llama3) {
      frequency = llama3_scaled(frequency, config.rope_scaling);
    }
    frequencies.push_back(frequency);
  }
  return at::tensor(frequencies, at::kFloat);
}

void RotaryAngles::prepare(std::int64_t time, at::Device device) {
  if (cosine_.defined() && cosine_.size(0) == time && cosine_.device() == device) return;
  const torch::autograd::AutoGradMode no_gradient(false);
  const at::Tensor angles = at::outer(at::arange(time, at::kFloat), rotary_frequencies(*config_));
  cosine_ = angles.cos().to(device);
  sine_ = angles.sin().to(device);
}

}  // namespace lowgear::trainer
