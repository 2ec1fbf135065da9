#include "training/trainer/model/attention_bias.h"

#include <cmath>
#include <limits>
#include <vector>

namespace lowgear::trainer {
namespace {

/// Slopes of ALiBi by head, as Hugging Face's `build_alibi_tensor`: a geometric sequence, and for numbers of heads that
/// are no power of two, every other element of the one for twice as many.
std::vector<float> alibi_slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  const auto slope = [](std::int64_t of, double exponent) {
    return static_cast<float>(std::pow(2.0, -8.0 / static_cast<double>(of) * exponent));
  };
  std::vector<float> slopes;
  for (std::int64_t i = 1; i <= power; ++i) slopes.push_back(slope(power, static_cast<double>(i)));
  for (std::int64_t i = 1; power + i <= heads; ++i) slopes.push_back(slope(2 * power, static_cast<double>(2 * i - 1)));
  return slopes;
}

}  // namespace

const at::Tensor& AttentionBiases::get(const Shape& shape, at::Device device) {
  at::Tensor& kept = kept_[{shape.causal, shape.window}];
  if (!kept.defined() || kept.size(-1) != shape.time || kept.device() != device) kept = made(shape, device);
  return kept;
}

at::Tensor AttentionBiases::made(const Shape& shape, at::Device device) const {
  const torch::autograd::AutoGradMode no_gradient(false);
  const at::Tensor pairs = at::ones({shape.time, shape.time}, at::TensorOptions().dtype(at::kBool).device(device));
  at::Tensor unseen = shape.causal ? pairs.triu(1) : pairs.logical_not();
  if (shape.window > 0) unseen = unseen.logical_or(pairs.tril(-shape.window));
  at::Tensor bias = at::zeros({1, shape.time, shape.time}, at::TensorOptions().device(device));
  if (config_->positions == model::PositionKind::alibi) {
    const std::int64_t heads = config_->heads / group_->size();
    const at::Tensor slopes = at::tensor(alibi_slopes(config_->heads)).to(device);
    const at::Tensor own = slopes.narrow(0, heads * group_->rank(), heads).view({-1, 1, 1});
    bias = bias + own * at::arange(shape.time, bias.options());
  }
  return bias.masked_fill(unseen, -std::numeric_limits<float>::infinity());
}

const at::Tensor& AttentionBiases::relative_buckets(const Shape& shape, at::Device device) {
  at::Tensor& kept = kept_buckets_[shape.causal];
  const bool is_other = !kept.defined() || kept.size(-1) != shape.time || kept.device() != device;
  if (is_other) kept = made_buckets(shape).to(device);
  return kept;
}

/// The bucket of each pair of tokens (Raffel et al. 2020, "T5"): half of the buckets for each direction in an encoder,
/// all for the tokens before in a decoder; half of these for each of the shortest distances, the others for ranges that
/// grow with the distance, computed in fp32 as transformers does.
at::Tensor AttentionBiases::made_buckets(const Shape& shape) const {
  const torch::autograd::AutoGradMode no_gradient(false);
  const at::Tensor places = at::arange(shape.time, at::kLong);
  const at::Tensor ahead = places.unsqueeze(0) - places.unsqueeze(1);
  const std::int64_t buckets = shape.causal ? config_->relative_buckets : config_->relative_buckets / 2;
  const at::Tensor distance = shape.causal ? ahead.neg().clamp_min(0) : ahead.abs();
  const std::int64_t exact = buckets / 2;
  const double range = std::log(static_cast<double>(config_->relative_distance) / static_cast<double>(exact));
  const at::Tensor far =
      (distance.to(at::kFloat) / static_cast<double>(exact)).log() / range * static_cast<double>(buckets - exact);
  const at::Tensor grown = (far.clamp_min(0).to(at::kLong) + exact).clamp_max(buckets - 1);
  const at::Tensor bucket = at::where(distance.lt(exact), distance, grown);
  return shape.causal ? bucket : bucket + ahead.gt(0).to(at::kLong) * buckets;
}

}  // namespace lowgear::trainer
