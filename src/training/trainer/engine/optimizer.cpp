#include "training/trainer/engine/optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "training/trainer/model/kernels.h"

namespace lowgear::trainer {
namespace {

using torch::autograd::AutoGradMode;

}  // namespace

AdamW::AdamW(ParameterStore& store, const launcher::OptimizerConfig& config, Communicators& ranks)
    : store_(&store), config_(config), ranks_(&ranks) {
  const AutoGradMode no_gradient(false);
  const std::int64_t all = store.values().numel();
  const std::int64_t own = shared() ? all / ranks.data->size() : all;
  state_.begin = shared() ? own * ranks.data->rank() : 0;
  const at::Tensor values = store.values().narrow(0, state_.begin, own);
  state_.master = values.scalar_type() == at::kFloat ? values : values.to(at::kFloat);
  state_.mean = at::zeros_like(state_.master);
  state_.variance = at::zeros_like(state_.master);
  gradients_ = store.gradients().narrow(0, state_.begin, own);
}

double AdamW::step(double learning_rate) {
  const AutoGradMode no_gradient(false);
  const double norm = global_norm();
  if (std::isfinite(norm)) {
    ++steps_;
    const bool clip = config_.clip_norm > 0 && norm > config_.clip_norm;
    update(learning_rate, clip ? config_.clip_norm / norm : 1.0);
    publish();
  }
  store_->zero_gradients();
  return norm;
}

/// Over every parameter of the model once: one that tensor-parallel ranks hold alike counts on the first of them, a
/// tied one where the embedding is. Added in fp64 and rounded to fp32: the order in which ranks add then changes the
/// last bit of the clipping only where the sum is within 1e-16 of a tie.
double AdamW::global_norm() const {
  const std::int64_t end = state_.begin + gradients_.numel();
  std::vector<at::Tensor> squares;
  for (const Parameter& parameter : store_->parameters()) {
    const std::int64_t first = std::max(parameter.offset, state_.begin);
    const std::int64_t last = std::min(parameter.offset + parameter.count(), end);
    const bool counts = !parameter.tied_copy && (parameter.shard.split() || ranks_->tensor->rank() == 0);
    if (first >= last || !counts) continue;
    squares.push_back(store_->gradients().narrow(0, first, last - first).norm(2, at::kDouble).square());
  }
  const auto options = store_->gradients().options().dtype(at::kDouble);
  const at::Tensor sum = squares.empty() ? at::zeros({1}, options) : at::stack(squares).sum().reshape({1}).to(options);
  // With replicas that hold the same gradients, the first one counts.
  if (!shared() && ranks_->data->rank() != 0) sum.zero_();
  ranks_->world->all_reduce(sum);
  return static_cast<float>(std::sqrt(sum.item<double>()));
}

void AdamW::update(double learning_rate, double gradient_scale) {
  const auto step = static_cast<double>(steps_);
  const std::int64_t decaying = std::clamp<std::int64_t>(store_->decaying() - state_.begin, 0, state_.master.numel());
  kernels::adamw(state_.master, state_.mean, state_.variance, gradients_, decaying,
                 {.learning_rate = learning_rate,
                  .beta1 = config_.beta1,
                  .beta2 = config_.beta2,
                  .epsilon = config_.epsilon,
                  .weight_decay = config_.weight_decay,
                  .gradient_scale = gradient_scale,
                  .mean_correction = 1 - std::pow(config_.beta1, step),
                  .variance_correction = 1 - std::pow(config_.beta2, step)});
}

void AdamW::publish() {
  const AutoGradMode no_gradient(false);
  const at::Tensor& values = store_->values();
  const at::Tensor own = values.narrow(0, state_.begin, state_.master.numel());
  if (!state_.master.is_alias_of(values)) own.copy_(state_.master);
  if (shared()) ranks_->data->all_gather(values, own.clone());
}

}  // namespace lowgear::trainer
