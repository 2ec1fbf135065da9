#include "training/trainer/model/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace lowgear::trainer {
namespace {

using Kind = model::RopeScaling::Kind;

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

/// The dimension, not a whole one, that turns so many times within the original positions.
double dimension_of_turns(double turns, const model::ModelConfig& config, double dims) {
  const auto original = static_cast<double>(config.rope_scaling.original_max_positions);
  return dims * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(config.rope_theta));
}

/// As Hugging Face's `_compute_yarn_parameters`, of the pair `pair`.
float yarn_scaled(double frequency, std::int64_t pair, const model::ModelConfig& config, double dims) {
  const model::RopeScaling& scaling = config.rope_scaling;
  double low = dimension_of_turns(scaling.beta_fast, config, dims);
  double high = dimension_of_turns(scaling.beta_slow, config, dims);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1);
  if (low == high) high += 0.001;
  const double divided = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  return static_cast<float>(frequency / scaling.factor * divided + frequency * (1 - divided));
}

/// The base for sequences that are longer than the model's positions (`_compute_dynamic_ntk_parameters`).
double base_of(const model::ModelConfig& config, double dims, std::int64_t time) {
  const model::RopeScaling& scaling = config.rope_scaling;
  if (scaling.kind != Kind::dynamic || time <= scaling.original_max_positions) return config.rope_theta;
  const double longer = static_cast<double>(time) / static_cast<double>(scaling.original_max_positions);
  return config.rope_theta * std::pow(scaling.factor * longer - (scaling.factor - 1), dims / (dims - 2));
}

}  // namespace

at::Tensor rotary_frequencies(const model::ModelConfig& config, std::int64_t time) {
  const std::int64_t turned = rotary_dims(config);
  const auto dims = static_cast<double>(turned);
  const double base = base_of(config, dims, time);
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < turned; i += 2) {
    const double exponent = static_cast<double>(i) / dims;
    auto frequency = static_cast<float>(1.0 / std::pow(base, exponent));
    if (config.rope_scaling.kind == Kind::linear) {
      frequency = static_cast<float>(frequency / config.rope_scaling.factor);
    } else if (config.rope_scaling.kind == Kind::llama3) {
      frequency = llama3_scaled(frequency, config.rope_scaling);
    } else if (config.rope_scaling.kind == Kind::yarn) {
      frequency = yarn_scaled(1.0 / std::pow(base, exponent), i / 2, config, dims);
    }
    frequencies.push_back(frequency);
  }
  return at::tensor(frequencies, at::kFloat);
}

void RotaryAngles::prepare(std::int64_t time, at::Device device, const at::Tensor& positions) {
  fill_tables(time, device);
  cosine_ = positions.defined() ? cosine_table_.index_select(0, positions) : cosine_table_;
  sine_ = positions.defined() ? sine_table_.index_select(0, positions) : sine_table_;
}

void RotaryAngles::fill_tables(std::int64_t time, at::Device device) {
  if (cosine_table_.defined() && cosine_table_.size(0) == time && cosine_table_.device() == device) return;
  const torch::autograd::AutoGradMode no_gradient(false);
  const at::Tensor angles = at::outer(at::arange(time, at::kFloat), rotary_frequencies(*config_, time));
  const bool is_yarn = config_->rope_scaling.kind == Kind::yarn;
  const double factor = is_yarn ? config_->rope_scaling.attention_factor : 1;
  cosine_table_ = angles.cos().mul_(factor).to(device);
  sine_table_ = angles.sin().mul_(factor).to(device);
}

at::Tensor turned(const at::Tensor& heads, const RotaryAngles& angles, bool interleaved) {
  const at::Tensor cosine = angles.cosine().to(heads.scalar_type());
  const at::Tensor sine = angles.sine().to(heads.scalar_type());
  const std::int64_t dims = 2 * cosine.size(-1);
  const at::Tensor moving = heads.narrow(-1, 0, dims);
  const std::vector<at::Tensor> pairs =
      interleaved ? std::vector<at::Tensor>{moving.slice(-1, 0, dims, 2), moving.slice(-1, 1, dims, 2)}
                  : moving.chunk(2, -1);
  const at::Tensor first = pairs[0] * cosine - pairs[1] * sine;
  const at::Tensor second = pairs[1] * cosine + pairs[0] * sine;
  const at::Tensor rotated = interleaved ? at::stack({first, second}, -1).flatten(-2) : at::cat({first, second}, -1);
  if (dims == heads.size(-1)) return rotated;
  return at::cat({rotated, heads.narrow(-1, dims, heads.size(-1) - dims)}, -1);
}

}  // namespace lowgear::trainer
