#include "training/trainer/checkpoint/sharding.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace lowgear::trainer {
namespace {

constexpr double kDeviation = 0.02;

/// FNV-1a: the same on every machine.
std::uint64_t hash(std::string_view text, std::uint64_t seed) {
  std::uint64_t value = 14695981039346656037ULL ^ seed;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return value;
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

at::Tensor initial_values(const Parameter& parameter, std::int64_t layers, std::uint64_t seed) {
  const std::vector<std::int64_t> shape = whole_shape(parameter);
  if (!parameter.decays) return parameter.name.ends_with(".bias") ? at::zeros(shape) : at::ones(shape);
  const bool residual =
      ends_with_any(parameter.name, {"o_proj.weight", "down_proj.weight", "attn.c_proj.weight", "mlp.c_proj.weight"});
  const double deviation = residual ? kDeviation / std::sqrt(2.0 * static_cast<double>(layers)) : kDeviation;
  return at::empty(shape).normal_(0, deviation, at::detail::createCPUGenerator(hash(parameter.name, seed)));
}

}  // namespace

std::vector<std::int64_t> whole_shape(const Parameter& parameter) {
  std::vector<std::int64_t> shape = parameter.shape;
  if (parameter.shard.split()) shape[static_cast<std::size_t>(parameter.shard.dimension)] *= parameter.shard.ranks;
  return shape;
}

at::Tensor part_of(const at::Tensor& whole, const TensorShard& shard) {
  if (!shard.split()) return whole;
  const std::int64_t group = whole.size(shard.dimension) / shard.groups;
  const std::int64_t width = group / shard.ranks;
  std::vector<at::Tensor> pieces;
  pieces.reserve(static_cast<std::size_t>(shard.groups));
  for (int i = 0; i < shard.groups; ++i) {
    pieces.push_back(whole.narrow(shard.dimension, i * group + shard.rank * width, width));
  }
  return at::cat(pieces, shard.dimension);
}

at::Tensor whole_of(const std::vector<at::Tensor>& parts, const TensorShard& shard) {
  if (!shard.split()) return parts.front();
  std::vector<at::Tensor> pieces;
  for (int i = 0; i < shard.groups; ++i) {
    for (const at::Tensor& part : parts) {
      const std::int64_t width = part.size(shard.dimension) / shard.groups;
      pieces.push_back(part.narrow(shard.dimension, i * width, width));
    }
  }
  return at::cat(pieces, shard.dimension);
}

void initialize(ParameterStore& store, std::int64_t layers, std::uint64_t seed) {
  const torch::autograd::AutoGradMode no_gradient(false);
  for (Parameter& parameter : store.parameters()) {
    parameter.value.copy_(part_of(initial_values(parameter, layers, seed), parameter.shard));
  }
}

}  // namespace lowgear::trainer
