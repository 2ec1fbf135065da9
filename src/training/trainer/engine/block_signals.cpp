#include "training/trainer/engine/block_signals.h"

#include <algorithm>

namespace lowgear::trainer {
namespace {

constexpr std::int64_t kSums = 3;

at::Tensor square_sum(const at::Tensor& tensor) { return tensor.norm(2, at::kDouble).square(); }

/// Elements [first, last) of the store's buffers: trained parameters of one block that count on this rank.
struct Stretch {
  std::int64_t block = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Those in [begin, end). Neighbours are one stretch: a GPU takes as long to begin work on a matrix as to do it.
std::vector<Stretch> stretches(const ParameterStore& store, const AdamW& optimizer, std::int64_t blocks,
                               std::int64_t begin, std::int64_t end) {
  std::vector<Stretch> result;
  for (const Parameter* parameter : store.trained_by_offset()) {
    const std::int64_t first = std::max(parameter->offset, begin);
    const std::int64_t last = std::min(parameter->offset + parameter->count(), end);
    const bool of_a_block = parameter->block >= 0 && parameter->block < blocks;
    if (!of_a_block || first >= last || !optimizer.counts(*parameter)) continue;
    const bool continues = !result.empty() && result.back().block == parameter->block && result.back().last == first;
    if (continues) {
      result.back().last = last;
    } else {
      result.push_back({parameter->block, first, last});
    }
  }
  return result;
}

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
  for (const Stretch& stretch : stretches(store, optimizer, blocks, state.begin, end)) {
    const auto part = [&](const at::Tensor& tensor) {
      return tensor.narrow(0, stretch.first - state.begin, stretch.last - stretch.first);
    };
    const at::Tensor row = sums.select(0, stretch.block);
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
