#include "training/trainer/engine/block_signals.h"

#include <algorithm>

namespace lowgear::trainer {
namespace {

constexpr std::int64_t kSums = 3;

at::Tensor square_sum(const at::Tensor& tensor) { return tensor.norm(2, at::kDouble).square(); }

}  // namespace

BlockSquares& BlockSquares::operator+=(const BlockSquares& other) {
  gradient += other.gradient;
  update += other.update;
  weight += other.weight;
  return *this;
}

std::vector<BlockSquares> block_squares(const ParameterStore& store, AdamW& optimizer, const Communicators& ranks,
                                        std::int64_t blocks) {
  const torch::autograd::AutoGradMode no_gradient(false);
  const OptimizerState& state = optimizer.state();
  const std::int64_t end = state.begin + state.master.numel();
  const at::Tensor sums = at::zeros({blocks, kSums}, store.gradients().options().dtype(at::kDouble));
  for (const Parameter& parameter : store.parameters()) {
    const std::int64_t first = std::max(parameter.offset, state.begin);
    const std::int64_t last = std::min(parameter.offset + parameter.count(), end);
    const bool of_a_block = parameter.block >= 0 && parameter.block < blocks;
    if (parameter.frozen || !of_a_block || first >= last || !optimizer.counts(parameter)) continue;
    const auto part = [&](const at::Tensor& tensor) { return tensor.narrow(0, first - state.begin, last - first); };
    const at::Tensor row = sums.select(0, parameter.block);
    row.select(0, 0).add_(square_sum(part(state.mean)));
    row.select(0, 1).add_(square_sum(optimizer.direction(part(state.mean), part(state.variance))));
    row.select(0, 2).add_(square_sum(part(state.master)));
  }
  ranks.world->all_reduce(sums.view({-1}));
  const at::Tensor host = sums.to(at::kCPU).contiguous();
  const auto* values = host.data_ptr<double>();
  std::vector<BlockSquares> result;
  for (std::int64_t block = 0; block < blocks; ++block, values += kSums) {
    result.push_back({.gradient = values[0], .update = values[1], .weight = values[2]});
  }
  return result;
}

}  // namespace lowgear::trainer
