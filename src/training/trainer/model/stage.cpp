#include "training/trainer/model/stage.h"

#include <algorithm>
#include <utility>

namespace lowgear::trainer {
namespace {

using torch::autograd::AutoGradMode;

void run_backward(const at::Tensor& output, const at::Tensor& gradient) {
  torch::autograd::backward({output}, {gradient});
}

}  // namespace

Stage::Stage(const BlockContext& context, const StageRange& range, StageOptions options)
    : context_(with_queue(context)),
      range_(range),
      options_(options),
      first_parameter_(context_.store->parameters().size()),
      layers_(context_, range),
      end_parameter_(context_.store->parameters().size()) {}

/// Weight gradients may be left for later.
BlockContext Stage::with_queue(BlockContext context) {
  context.queue = &queue_;
  return context;
}

void Stage::bind() {
  const std::int64_t prefix = context_.store->frozen_blocks();
  frozen_ = std::clamp<std::int64_t>(prefix - range_.layers.begin, 0, range_.layers.size());
  trains_before_ = prefix == 0 || prefix < range_.layers.begin;
  layers_.bind();
  auto& parameters = context_.store->parameters();
  leaves_.clear();
  for (std::size_t i = first_parameter_; i < end_parameter_; ++i) {
    if (parameters[i].value.requires_grad()) leaves_.push_back(&parameters[i]);
  }
}

at::Tensor Stage::logits(const at::Tensor& ids) {
  const AutoGradMode no_gradient(false);
  return layers_.logits_of(layers_.through_blocks(layers_.enter(ids), 0, layers_.blocks().size()));
}

at::Tensor Stage::evaluate(const at::Tensor& input, const at::Tensor& targets) {
  const AutoGradMode no_gradient(false);
  return layers_.leave(layers_.through_blocks(layers_.enter(input), 0, layers_.blocks().size()), targets);
}

/// From the stage's input to that of its first trained block.
at::Tensor Stage::enter(const at::Tensor& input) const {
  if (trains_before_) return layers_.enter(input);
  const AutoGradMode no_gradient(false);
  return layers_.through_blocks(layers_.enter(input), 0, first_trained());
}

at::Tensor Stage::forward(int microbatch, const at::Tensor& input, const at::Tensor& targets) {
  Pass pass;
  pass.input = range_.first || !trains_before_ ? input : input.detach().requires_grad_(true);
  pass.targets = targets;
  if (options_.recompute) {
    pass.output = forward_keeping_inputs(pass);
  } else {
    pass.output =
        layers_.leave(layers_.through_blocks(enter(pass.input), first_trained(), layers_.blocks().size()), targets);
  }
  at::Tensor output = pass.output.detach();
  passes_[microbatch] = std::move(pass);
  return output;
}

std::int64_t Stage::kept_input_bytes(int microbatch) const {
  const auto found = passes_.find(microbatch);
  if (range_.first || found == passes_.end()) return 0;
  return static_cast<std::int64_t>(found->second.input.nbytes());
}

/// The layers' insides are not kept; the last piece, from the last layer's output on, is.
at::Tensor Stage::forward_keeping_inputs(Pass& pass) {
  at::Tensor activations;
  {
    const AutoGradMode no_gradient(false);
    activations = enter(pass.input);
    for (std::size_t block = first_trained(); block < layers_.blocks().size(); ++block) {
      pass.layer_inputs.push_back(activations);
      activations = layers_.blocks()[block]->forward(activations);
    }
  }
  if (!range_.last) return activations;
  activations = activations.detach().requires_grad_(true);
  pass.layer_inputs.push_back(activations);
  return layers_.leave(activations, pass.targets);
}

at::Tensor Stage::backward_recomputing(Pass& pass, at::Tensor gradient) {
  if (range_.last) {
    run_backward(pass.output, gradient);
    gradient = pass.layer_inputs.back().grad();
    pass.layer_inputs.pop_back();
  }
  for (std::size_t block = layers_.blocks().size(); block > first_trained(); --block) {
    const bool passes_on = trains_before_ || block - 1 > first_trained();
    const at::Tensor input = pass.layer_inputs.back().detach().requires_grad_(passes_on);
    pass.layer_inputs.pop_back();
    run_backward(layers_.blocks()[block - 1]->forward(input), gradient);
    gradient = input.grad();
  }
  if (!trains_before_) return {};
  if (!range_.first) return gradient;
  run_backward(layers_.enter(pass.input), gradient);
  return {};
}

at::Tensor Stage::backward(int microbatch, const at::Tensor& output_gradient, WeightGradients when) {
  const auto found = passes_.find(microbatch);
  TORCH_INTERNAL_ASSERT(found != passes_.end(), "a backward pass without its forward pass");
  Pass pass = std::move(found->second);
  passes_.erase(found);
  const WeightGradientQueue::Guard defer(queue_, when == WeightGradients::later ? &deferred_[microbatch] : nullptr);
  at::Tensor input_gradient;
  if (options_.recompute) {
    input_gradient = backward_recomputing(pass, output_gradient);
  } else {
    run_backward(pass.output, output_gradient);
    if (!range_.first && trains_before_) input_gradient = pass.input.grad();
  }
  collect_gradients();
  return input_gradient;
}

void Stage::weight_gradients(int microbatch) {
  const auto found = deferred_.find(microbatch);
  if (found == deferred_.end()) return;
  for (const auto& compute : found->second) compute();
  deferred_.erase(found);
}

/// Moves what autograd has left at its leaves to the sums.
void Stage::collect_gradients() {
  const AutoGradMode no_gradient(false);
  for (Parameter* leaf : leaves_) {
    at::Tensor& gradient = leaf->value.mutable_grad();
    if (!gradient.defined()) continue;
    // Of a linear layer whose gradients this step leaves out, autograd still sums that of a bias split by rows.
    if (!leaf->dropped) leaf->accumulate(gradient);
    gradient.reset();
  }
}

void Stage::clear() {
  if (context_.fp8_blocks != nullptr) ++context_.fp8_blocks->weights_epoch;
  passes_.clear();
  deferred_.clear();
}

}  // namespace lowgear::trainer
