#include "training/trainer/engine/block_signals.h"

#include <algorithm>

namespace lowgear::trainer {
namespace {

constexpr std::int64_t kSums = 3;

/// Elements [first, last) of the store's buffers: trained parameters of one block that count on this rank.
struct BlockStretch {
  std::int64_t block = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Those in [begin, end). Neighbours are one stretch: a GPU takes as long to begin work on a matrix as to do it.
std::vector<BlockStretch> stretches(const ParameterStore& store, const AdamW& optimizer, std::int64_t blocks,
                                    std::int64_t begin, std::int64_t end) {
  std::vector<BlockStretch> result;
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

at::Tensor block_squares(const ParameterStore& store, AdamW& optimizer, const Communicators& ranks,
                         std::int64_t blocks) {
  const torch::autograd::AutoGradMode no_gradient(false);
  const OptimizerState& state = optimizer.state();
  const std::int64_t end = state.begin + state.master.numel();
  const at::Tensor sums = no_block_squares(store, blocks);
  for (const BlockStretch& stretch : stretches(store, optimizer, blocks, state.begin, end)) {
    const auto part = [&](const at::Tensor& tensor) {
      return tensor.narrow(0, stretch.first - state.begin, stretch.last - stretch.first);
    };
    optimizer.add_squares(sums.select(0, stretch.block), part(state.master), part(state.mean), part(state.variance));
  }
  ranks.world->all_reduce(sums.view({-1}));
  return sums;
}

at::Tensor no_block_squares(const ParameterStore& store, std::int64_t blocks) {
  return at::zeros({blocks, kSums}, store.gradients().options().dtype(at::kDouble));
}

std::vector<BlockSquares> read_block_squares(const at::Tensor& sums) {
  const at::Tensor host = sums.to(at::kCPU).contiguous();
  const auto* values = host.data_ptr<double>();
  std::vector<BlockSquares> result;
  for (std::int64_t block = 0; block < sums.size(0); ++block, values += kSums) {
    result.push_back({.gradient = values[0], .update = values[1], .weight = values[2]});
  }
  return result;
}

at::Tensor block_squares_tensor(const std::vector<BlockSquares>& squares) {
  const at::Tensor sums = at::zeros({static_cast<std::int64_t>(squares.size()), kSums}, at::kDouble);
  auto* values = sums.data_ptr<double>();
  for (const BlockSquares& block : squares) {
    for (const double value : {block.gradient, block.update, block.weight}) *values++ = value;
  }
  return sums;
}

}  // namespace lowgear::trainer
