#include "training/trainer/run/freezing_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "training/trainer/model/parameter_store.h"

namespace lowgear::trainer {

namespace {

/// Of a block: of AdamW's first moment (the gradient, averaged over some 1 / (1 - beta1) steps), of what a step changes
/// without weight decay by its learning rate, and of the weights. 0 where the block is frozen.
constexpr std::int64_t kSums = 3;
/// Samples of a window. AdamW's first moment remembers some ten steps, so that five of them see half of the default
/// window; each reads the optimizer's whole state.
constexpr std::int64_t kSamples = 5;
constexpr int kMostSamples = 1'000'000'000;

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

at::Tensor no_squares(AdamW& optimizer, std::int64_t blocks) {
  return at::zeros({blocks, kSums}, optimizer.store().gradients().options().dtype(at::kDouble));
}

/// A meeting of all ranks, on which the sums are the same.
at::Tensor block_squares(AdamW& optimizer, const Communicators& ranks, std::int64_t blocks) {
  const torch::autograd::AutoGradMode no_gradient(false);
  const OptimizerState& state = optimizer.state();
  const std::int64_t end = state.begin + state.master.numel();
  const at::Tensor sums = no_squares(optimizer, blocks);
  for (const BlockStretch& stretch : stretches(optimizer.store(), optimizer, blocks, state.begin, end)) {
    const auto part = [&](const at::Tensor& tensor) {
      return tensor.narrow(0, stretch.first - state.begin, stretch.last - stretch.first);
    };
    optimizer.add_squares(sums.select(0, stretch.block), part(state.master), part(state.mean), part(state.variance));
  }
  ranks.world->all_reduce(sums.view({-1}));
  return sums;
}

}  // namespace

FreezingWindow::FreezingWindow(const launcher::TrainConfig& config, AdamW& optimizer, const Communicators& ranks)
    : config_(&config), optimizer_(&optimizer), ranks_(&ranks) {
  forget_samples();
}

void FreezingWindow::forget_samples() {
  sums_ = no_squares(*optimizer_, config_->model.layers);
  samples_ = 0;
}

bool FreezingWindow::ends_with(std::int64_t iteration) const {
  return (iteration + 1) % config_->freeze.controller->window_steps == 0;
}

void FreezingWindow::after_update(std::int64_t iteration) {
  const std::int64_t distance = std::max<std::int64_t>(1, config_->freeze.controller->window_steps / kSamples);
  if ((iteration + 1) % distance != 0) return;
  sums_.add_(block_squares(*optimizer_, *ranks_, config_->model.layers));
  ++samples_;
}

adapt::freezing::Observation FreezingWindow::take(std::int64_t iteration, double learning_rate) {
  adapt::freezing::Observation seen;
  seen.steps_done = iteration + 1;
  seen.warming_up = seen.steps_done <= config_->optimizer.warmup_steps;
  seen.learning_rate = learning_rate;
  const at::Tensor host = sums_.to(at::kCPU).contiguous();
  const auto* squares = host.data_ptr<double>();
  for (std::int64_t block = 0; block < sums_.size(0); ++block, squares += kSums) {
    const bool frozen = block < optimizer_->store().frozen_blocks();
    seen.gradients.push_back(frozen ? adapt::freezing::kNotMeasured
                                    : std::sqrt(squares[0] / static_cast<double>(samples_)));
    seen.drifts.push_back(frozen ? adapt::freezing::kNotMeasured : std::sqrt(squares[1] / squares[2]));
  }
  forget_samples();
  return seen;
}

void FreezingWindow::save(Json& root) const {
  const at::Tensor host = sums_.to(at::kCPU).contiguous();
  const auto* squares = host.data_ptr<double>();
  Json sums = Json::array();
  for (std::int64_t block = 0; block < sums_.size(0); ++block, squares += kSums) {
    sums.push_back({squares[0], squares[1], squares[2]});
  }
  root["samples"] = samples_;
  root["sums"] = std::move(sums);
}

void FreezingWindow::restore(const JsonView& root) {
  samples_ = root.at("samples").integer_in(0, kMostSamples);
  const JsonView sums = root.at("sums");
  const auto blocks = static_cast<std::size_t>(sums_.size(0));
  if (sums.size() != blocks) sums.fail(fmt::format("the model has {} blocks", blocks));
  const at::Tensor host = at::zeros({sums_.size(0), kSums}, at::kDouble);
  auto* squares = host.data_ptr<double>();
  for (std::size_t block = 0; block < blocks; ++block) {
    for (std::size_t sum = 0; sum < kSums; ++sum) *squares++ = sums.at(block).at(sum).number();
  }
  sums_.copy_(host);
}

}  // namespace lowgear::trainer
