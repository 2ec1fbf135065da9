#include "training/trainer/run/freezing_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "planning/adapt/freezing/controller.h"

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

namespace {

/// Samples of a window. AdamW's first moment remembers some ten steps, so that five of them see half of the default
/// window; each reads the optimizer's whole state.
constexpr std::int64_t kSamples = 5;
constexpr int kMaxCount = 1'000'000'000;

}  // namespace

FreezingLoop::FreezingLoop(const launcher::TrainConfig& config, AdamW& optimizer, const Communicators& ranks,
                           HeldOut held_out)
    : config_(&config), optimizer_(&optimizer), ranks_(&ranks), held_out_(std::move(held_out)) {
  if (config.freeze.controller) controller_.emplace(config.model.layers, config.freeze.controller->options);
  if (config.freeze.weight_gradient_budget) {
    rotation_.emplace(config.model.layers, linear_weights(config.model), *config.freeze.weight_gradient_budget);
    skipped_.resize(static_cast<std::size_t>(rotation_->operations()));
  }
  forget_samples();
}

void FreezingLoop::forget_samples() {
  sums_ = no_block_squares(optimizer_->store(), config_->model.layers);
  samples_ = 0;
}

void FreezingLoop::begin(std::int64_t first_step) {
  // The first loss allocates its buffers, and text that cannot be read shows now rather than after a window.
  if (controller_) (void)held_out_();
  if (!controller_ || !config_->freeze.controller->log || ranks_->world->rank() != 0) return;
  log_.emplace(*config_->freeze.controller->log, first_step);
  log_->add(adapt::freezing::write_header(config_->model.layers, config_->freeze.controller->options,
                                          controller_->state(), first_step));
}

std::int64_t FreezingLoop::blocks_at(std::int64_t step) const {
  return controller_ ? blocks_ : config_->freeze.blocks_at(step);
}

SlowerBlocks FreezingLoop::slower_at(std::int64_t step) const {
  if (!controller_ || unfrozen_.step < 0) return {};
  const std::int64_t steps = config_->freeze.controller->rewarm_steps;
  if (step - unfrozen_.step >= steps) return {};
  return {.from = unfrozen_.from,
          .until = unfrozen_.until,
          .factor = static_cast<double>(step - unfrozen_.step + 1) / static_cast<double>(steps + 1)};
}

std::optional<adapt::freezing::WeightGradientRotation::Drops> FreezingLoop::drops_at(std::int64_t step) const {
  if (!rotation_) return std::nullopt;
  return step < config_->optimizer.warmup_steps ? adapt::freezing::WeightGradientRotation::Drops{} : rotation_->drops();
}

WeightGradientDrops FreezingLoop::dropped_at(std::int64_t step) const {
  if (!rotation_ || config_->adapt.placebo) return {};
  WeightGradientDrops drops{.dropped = std::vector<bool>(skipped_.size()), .skipped = skipped_};
  const adapt::freezing::WeightGradientRotation::Drops now = *drops_at(step);
  for (const std::int64_t operation : now.operations) {
    drops.dropped[static_cast<std::size_t>(operation)] = true;
  }
  return drops;
}

/// The step is done.
void FreezingLoop::count_drops(std::int64_t step) {
  if (step < config_->optimizer.warmup_steps) return;
  if (!config_->adapt.placebo) {
    const adapt::freezing::WeightGradientRotation::Drops done = rotation_->drops();
    for (const std::int64_t operation : done.operations) ++skipped_[static_cast<std::size_t>(operation)];
  }
  rotation_->advance();
}

void FreezingLoop::after_step(std::int64_t step, double learning_rate) {
  if (rotation_) count_drops(step);
  if (!controller_) return;
  const std::int64_t window = config_->freeze.controller->window_steps;
  const std::int64_t done = step + 1;
  if (done % std::max<std::int64_t>(1, window / kSamples) == 0) {
    sums_.add_(block_squares(optimizer_->store(), *optimizer_, *ranks_, config_->model.layers));
    ++samples_;
  }
  if (done % window != 0) return;
  decide(done, learning_rate);
  forget_samples();
}

adapt::freezing::Observation FreezingLoop::observation(std::int64_t steps_done, double learning_rate) const {
  adapt::freezing::Observation seen;
  seen.steps_done = steps_done;
  seen.warming_up = steps_done <= config_->optimizer.warmup_steps;
  seen.learning_rate = learning_rate;
  for (const BlockSquares& sum : read_block_squares(sums_)) {
    const bool frozen = std::ssize(seen.gradients) < optimizer_->store().frozen_blocks();
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    seen.gradients.push_back(frozen ? kNone : std::sqrt(sum.gradient / static_cast<double>(samples_)));
    seen.drifts.push_back(frozen ? kNone : std::sqrt(sum.update / sum.weight));
  }
  return seen;
}

void FreezingLoop::decide(std::int64_t steps_done, double learning_rate) {
  adapt::freezing::Observation seen = observation(steps_done, learning_rate);
  seen.held_out_loss = held_out_();
  if (observer_) {
    if (ranks_->world->rank() == 0) observer_(seen);
    return;
  }
  const at::Tensor agreed = at::zeros({1}, optimizer_->store().gradients().options().dtype(at::kLong));
  if (ranks_->world->rank() == 0) {
    const adapt::freezing::Decision decision = controller_->observe(seen);
    if (log_ && !log_->add(adapt::freezing::write_line({seen, decision})) && log_->lost_lines() == 1) {
      fmt::print(stderr, "{}; training continues\n", log_->lost_text());
    }
    agreed.fill_(decision.blocks);
  }
  ranks_->world->broadcast(agreed, 0);
  adopt(agreed.item<std::int64_t>(), steps_done);
}

bool FreezingLoop::measures_after(std::int64_t step) const {
  return controller_ && (step + 1) % config_->freeze.controller->window_steps == 0;
}

void FreezingLoop::adopt(std::int64_t blocks, std::int64_t step) {
  if (blocks < blocks_) unfrozen_ = {.from = blocks, .until = blocks_, .step = step};
  blocks_ = blocks;
}

std::string FreezingLoop::save() const {
  if (rotation_) {
    const adapt::freezing::WeightGradientRotation::State& state = rotation_->state();
    return Json({{"weight_gradients", {{"next", state.next}, {"credit", state.credit}, {"skipped", skipped_}}}}).dump();
  }
  if (!controller_) return "";
  Json sums = Json::array();
  for (const BlockSquares& sum : read_block_squares(sums_)) sums.push_back({sum.gradient, sum.update, sum.weight});
  return Json({{"blocks", blocks_},
               {"unfrozen", {{"from", unfrozen_.from}, {"until", unfrozen_.until}, {"step", unfrozen_.step}}},
               {"samples", samples_},
               {"sums", sums},
               {"controller", Json::parse(adapt::freezing::write_state(controller_->state()))}})
      .dump();
}

/// With another budget turns and credit continue.
void FreezingLoop::restore_rotation(const JsonView& root) {
  if (!root.has("weight_gradients")) return;  // of a run that left nothing out
  const JsonView saved = root.at("weight_gradients");
  const JsonView skipped = saved.at("skipped");
  if (skipped.size() != skipped_.size()) skipped.fail(fmt::format("the model has {} linear layers", skipped_.size()));
  for (std::size_t i = 0; i < skipped_.size(); ++i) skipped_[i] = skipped.at(i).integer_in(0, kMaxCount);
  const int most = static_cast<int>(rotation_->operations()) - 1;
  try {
    rotation_->restore({.next = saved.at("next").integer_in(0, most), .credit = saved.at("credit").integer()});
  } catch (const InputError& error) {
    saved.fail(error.what());
  }
}

/// Of all ranks, only the first has the controller's memory; what it decided, all have.
void FreezingLoop::restore(const std::string& json, const std::string& source) {
  if (!controller_ && !rotation_) return;
  const Json document = parse_json(json, source);
  const JsonView root(document, source, "$.freezing");
  if (rotation_) return restore_rotation(root);
  if (!root.has("blocks")) return;  // of a run that froze nothing
  const JsonView unfrozen = root.at("unfrozen");
  unfrozen_ = {.from = unfrozen.at("from").integer_in(0, kMaxCount),
               .until = unfrozen.at("until").integer_in(0, kMaxCount),
               .step = unfrozen.at("step").integer_in(-1, kMaxCount)};
  samples_ = root.at("samples").integer_in(0, kMaxCount);
  const JsonView sums = root.at("sums");
  const auto blocks = static_cast<std::size_t>(sums_.size(0));
  if (sums.size() != blocks) sums.fail(fmt::format("the model has {} blocks", blocks));
  std::vector<BlockSquares> squares;
  for (std::size_t block = 0; block < blocks; ++block) {
    const JsonView row = sums.at(block);
    squares.push_back({.gradient = row.at(0).number(), .update = row.at(1).number(), .weight = row.at(2).number()});
  }
  sums_.copy_(block_squares_tensor(squares));
  controller_.emplace(config_->model.layers, config_->freeze.controller->options,
                      adapt::freezing::parse_state(root.at("controller").json().dump(), source));
  blocks_ = controller_->state().blocks;
}

}  // namespace lowgear::trainer
