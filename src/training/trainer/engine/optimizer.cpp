#include "training/trainer/engine/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

namespace lowgear::trainer {

namespace {

using torch::autograd::AutoGradMode;

}  // namespace

AdamW::AdamW(ParameterStore& store, const launcher::OptimizerConfig& config, Communicators& ranks)
    : store_(&store), config_(config), ranks_(&ranks) {
  const AutoGradMode no_gradient(false);
  store.round_values(store.values());
  cut();
  state_.master = own_values(state_, gradients_.numel());
  state_.mean = at::zeros_like(state_.master);
  state_.variance = at::zeros_like(state_.master);
  frozen_.master = own_values(frozen_, shared() ? frozen() / ranks_->data->size() : frozen());
  frozen_.mean = at::zeros({frozen_.master.numel()}, at::kFloat);
  frozen_.variance = at::zeros({frozen_.master.numel()}, at::kFloat);
}

/// Which stretches of both parts of the store are this rank's.
void AdamW::cut() {
  const std::int64_t replicas = ranks_->data->size();
  const std::int64_t own = shared() ? store_->trained() / replicas : store_->trained();
  state_.begin = shared() ? own * ranks_->data->rank() : 0;
  frozen_.begin = store_->trained() + (shared() ? frozen() / replicas * ranks_->data->rank() : 0);
  gradients_ = store_->gradients().narrow(0, state_.begin, own);
}

/// fp32, the store's own where those are.
at::Tensor AdamW::own_values(const OptimizerState& state, std::int64_t count) const {
  const at::Tensor values = store_->values().narrow(0, state.begin, count);
  if (!keeps_masters()) return values;
  return values.to(&state == &frozen_ ? at::kCPU : values.device(), at::kFloat, /*non_blocking=*/false, /*copy=*/true);
}

void AdamW::freeze(std::int64_t blocks, const std::function<void()>& rebind) {
  const AutoGradMode no_gradient(false);
  const BufferLayout before = store_->layout();
  OptimizerState trained = std::exchange(state_, {});
  OptimizerState frozen = std::exchange(frozen_, {});
  gradients_ = at::Tensor();
  store_->freeze(blocks);
  rebind();
  cut();
  const std::vector<std::int64_t> now = store_->layout().offsets;
  arrange_moments(std::move(trained), std::move(frozen), before, [&](const at::Tensor& old, const at::Tensor& moved) {
    for (std::size_t i = 0; i < now.size(); ++i) {
      const std::int64_t count = store_->parameters()[i].count();
      moved.narrow(0, now[i], count).copy_(old.narrow(0, before.offsets[i], count));
    }
  });
}

void AdamW::move_to(const std::function<ParameterStore&()>& make, const Exchange& exchange) {
  const AutoGradMode no_gradient(false);
  const BufferLayout before = store_->layout();
  const at::Tensor values = store_->values();
  OptimizerState trained = std::exchange(state_, {});
  OptimizerState frozen = std::exchange(frozen_, {});
  gradients_ = at::Tensor();
  store_ = &make();
  cut();
  if (!keeps_masters()) exchange(values, store_->values());
  arrange_moments(std::move(trained), std::move(frozen), before, exchange);
  if (keeps_masters()) publish();
}

/// Into the store's places, of which `cut` has said which are this rank's; the fp32 values, too, unless they are the
/// store's own. One moment after the other, so that little is there twice.
void AdamW::arrange_moments(OptimizerState trained, OptimizerState frozen, const BufferLayout& before,
                            const Exchange& exchange) {
  const std::int64_t own_frozen = shared() ? this->frozen() / ranks_->data->size() : this->frozen();
  for (auto moment : {&OptimizerState::master, &OptimizerState::mean, &OptimizerState::variance}) {
    if (moment == &OptimizerState::master && !keeps_masters()) {
      state_.master = own_values(state_, gradients_.numel());
      frozen_.master = own_values(frozen_, own_frozen);
      trained.master = frozen.master = at::Tensor();
      continue;
    }
    at::Tensor old = gathered(std::exchange(trained.*moment, {}), frozen.*moment, before);
    frozen.*moment = at::Tensor();
    const at::Tensor moved = at::zeros({store_->values().numel()}, old.options());
    exchange(old, moved);
    old = at::Tensor();
    const bool is_all = gradients_.numel() == moved.numel();
    state_.*moment = is_all ? moved : moved.narrow(0, state_.begin, gradients_.numel()).clone();
    frozen_.*moment = moved.narrow(0, frozen_.begin, own_frozen).to(at::kCPU, at::kFloat, false, /*copy=*/true);
  }
}

/// Both parts of a moment, of all replicas, on the device: [all].
at::Tensor AdamW::gathered(at::Tensor trained, const at::Tensor& frozen, const BufferLayout& layout) const {
  if (!shared() && layout.trained == layout.all) return trained;
  const at::Tensor all = at::empty({layout.all}, trained.options());
  const auto gather = [&](const at::Tensor& own, std::int64_t begin, std::int64_t count) {
    if (count == 0) return;
    const at::Tensor part = all.narrow(0, begin, count);
    if (shared()) {
      ranks_->data->all_gather(part, own.to(all.device()));
    } else {
      part.copy_(own);
    }
  };
  gather(trained, 0, layout.trained);
  gather(frozen, layout.trained, layout.all - layout.trained);
  return all;
}

double AdamW::step(double learning_rate, const SlowerBlocks& slower, double loss_scale) {
  const AutoGradMode no_gradient(false);
  const double norm = global_norm() / loss_scale;
  if (std::isfinite(norm)) {
    ++steps_;
    const bool clip = config_.clip_norm > 0 && norm > config_.clip_norm;
    update(learning_rate, slower, (clip ? config_.clip_norm / norm : 1.0) / loss_scale);
    publish(state_, 0, store_->trained());
  }
  store_->zero_gradients();
  return norm;
}

/// With replicas that hold the same, the first one counts, and so do the first tensor-parallel rank and the first
/// stage.
bool AdamW::counts(const Parameter& parameter) const {
  const bool replica = shared() || ranks_->data->rank() == 0;
  return replica && !parameter.tied_copy && (parameter.shard.split() || ranks_->tensor->rank() == 0);
}

kernels::AdamWStep AdamW::step_constants(std::int64_t skipped_steps) const {
  const auto step = static_cast<double>(steps_ - skipped_steps);
  return {.beta1 = config_.beta1,
          .beta2 = config_.beta2,
          .epsilon = config_.epsilon,
          .weight_decay = config_.weight_decay,
          .mean_correction = 1 - std::pow(config_.beta1, step),
          .variance_correction = 1 - std::pow(config_.beta2, step)};
}

void AdamW::add_squares(const at::Tensor& sums, const at::Tensor& master, const at::Tensor& mean,
                        const at::Tensor& variance) const {
  kernels::add_state_squares(sums, master, mean, variance, step_constants());
}

/// Over every trained parameter of the model once: one that tensor-parallel ranks hold alike counts on the first of
/// them, a tied one where the embedding is. Added in fp64 and rounded to fp32: the order in which ranks add then
/// changes the last bit of the clipping only where the sum is within 1e-16 of a tie.
double AdamW::global_norm() const {
  const std::int64_t end = state_.begin + gradients_.numel();
  std::vector<at::Tensor> squares;
  for (const Parameter& parameter : store_->parameters()) {
    const std::int64_t first = std::max(parameter.offset, state_.begin);
    const std::int64_t last = std::min(parameter.offset + parameter.count(), end);
    if (first >= last || !counts(parameter) || parameter.dropped) continue;
    squares.push_back(kernels::sum_of_squares(store_->gradients().narrow(0, first, last - first)));
  }
  const auto options = store_->gradients().options().dtype(at::kDouble);
  const at::Tensor sum = squares.empty() ? at::zeros({1}, options) : at::stack(squares).sum().reshape({1}).to(options);
  ranks_->world->all_reduce(sum);
  return static_cast<float>(std::sqrt(sum.item<double>()));
}

/// This rank's stretch by what the step does to it: of whole parameters, but those at its ends.
std::vector<AdamW::Span> AdamW::spans(const SlowerBlocks& slower) const {
  std::vector<Span> spans{{.end = gradients_.numel()}};
  for (const Parameter* parameter : store_->trained_by_offset()) {
    const bool slow = in_frozen_prefix(*parameter, slower.until) && !in_frozen_prefix(*parameter, slower.from);
    const std::int64_t begin = std::clamp<std::int64_t>(parameter->offset - state_.begin, 0, gradients_.numel());
    const Span span{.begin = begin,
                    .end = gradients_.numel(),
                    .factor = slow ? slower.factor : 1,
                    .dropped = parameter->dropped,
                    .skipped_steps = parameter->skipped_steps};
    if (span.is_like(spans.back())) continue;
    spans.back().end = begin;
    spans.push_back(span);
  }
  return spans;
}

void AdamW::update(double learning_rate, const SlowerBlocks& slower, double gradient_scale) {
  for (const Span& span : spans(slower)) {
    const std::int64_t count = span.end - span.begin;
    if (count == 0 || span.dropped) continue;
    kernels::AdamWStep step = step_constants(span.skipped_steps);
    step.gradient_scale = gradient_scale;
    const auto part = [&](const at::Tensor& tensor) { return tensor.narrow(0, span.begin, count); };
    const std::int64_t decaying = std::clamp<std::int64_t>(store_->decaying() - state_.begin - span.begin, 0, count);
    step.learning_rate = learning_rate * span.factor;
    kernels::adamw(part(state_.master), part(state_.mean), part(state_.variance), part(gradients_), decaying, step);
  }
}

void AdamW::publish() {
  publish(state_, 0, store_->trained());
  publish(frozen_, store_->trained(), frozen());
}

/// The part of the store that begins with element `begin`.
void AdamW::publish(const OptimizerState& state, std::int64_t begin, std::int64_t count) {
  if (count == 0) return;
  const AutoGradMode no_gradient(false);
  const at::Tensor& values = store_->values();
  const at::Tensor own = values.narrow(0, state.begin, state.master.numel());
  if (!state.master.is_alias_of(values)) {
    own.copy_(state.master);
    store_->round_values(own);
  }
  if (shared()) ranks_->data->all_gather(values.narrow(0, begin, count), own.clone());
}

double learning_rate(const launcher::OptimizerConfig& config, std::int64_t step, std::int64_t steps) {
  if (step < config.warmup_steps) {
    return config.learning_rate * static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps);
  }
  if (step >= steps) return config.min_learning_rate;
  const double progress =
      static_cast<double>(step - config.warmup_steps) / static_cast<double>(steps - config.warmup_steps);
  const double share = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return config.min_learning_rate + share * (config.learning_rate - config.min_learning_rate);
}

}  // namespace lowgear::trainer
