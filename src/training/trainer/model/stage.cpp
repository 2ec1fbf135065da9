#include "training/trainer/model/stage.h"

#include <utility>

#include "training/trainer/model/tensor_parallel.h"

namespace lowgear::trainer {
namespace {

using torch::autograd::AutoGradMode;

struct PartNames {
  const char* embedding;
  const char* positions;
  const char* norm;
};

PartNames names_of(model::Architecture architecture) {
  if (architecture == model::Architecture::gpt2)
    return {"transformer.wte.weight", "transformer.wpe.weight", "transformer.ln_f"};
  return {"model.embed_tokens.weight", "", "model.norm"};
}

Parameter& declare_vocabulary_matrix(const BlockContext& context, const char* name) {
  Parameter parameter;
  parameter.name = name;
  const int ranks = context.tensor_group->size();
  parameter.shape = {context.config->vocabulary / ranks, context.config->hidden};
  parameter.shard = {.dimension = 0, .rank = context.tensor_group->rank(), .ranks = ranks};
  parameter.decays = true;
  return context.store->declare(std::move(parameter));
}

Parameter& declare_positions(const BlockContext& context, const char* name) {
  Parameter parameter;
  parameter.name = name;
  parameter.shape = {context.config->max_positions, context.config->hidden};
  parameter.decays = true;
  return context.store->declare(std::move(parameter));
}

void run_backward(const at::Tensor& output, const at::Tensor& gradient) {
  torch::autograd::backward({output}, {gradient});
}

}  // namespace

Stage::Stage(const BlockContext& context, const StageRange& range, StageOptions options)
    : context_(context), range_(range), options_(options), first_parameter_(context_.store->parameters().size()) {
  context_.queue = &queue_;
  const model::ModelConfig& config = *context_.config;
  const PartNames names = names_of(config.architecture);
  if (range_.first) {
    embedding_ = &declare_vocabulary_matrix(context_, names.embedding);
    embedding_->tied = config.tied_embeddings;
    if (config.architecture == model::Architecture::gpt2) positions_ = &declare_positions(context_, names.positions);
  }
  for (std::int64_t layer = range_.layers.begin; layer < range_.layers.end; ++layer) {
    blocks_.push_back(make_block(context_, layer));
  }
  if (range_.last) {
    norm_.emplace(context_, names.norm);
    output_weight_ = &declare_vocabulary_matrix(context_, config.tied_embeddings ? names.embedding : "lm_head.weight");
    output_weight_->tied_copy = config.tied_embeddings;
    output_weight_->tied = config.tied_embeddings;
  }
  end_parameter_ = context_.store->parameters().size();
}

void Stage::bind() {
  for (const auto& block : blocks_) block->bind();
  if (norm_) norm_->bind();
  if (positions_ != nullptr) positions_->value.requires_grad_(true);
  if (output_weight_ != nullptr) {
    output_->weight = output_weight_->value;
    output_->weight_gradient = output_weight_->gradient;
    output_->queue = &queue_;
    output_->store = context_.store;
  }
  anchor_ = at::zeros({}, context_.store->values().options()).requires_grad_(true);
  auto& parameters = context_.store->parameters();
  for (std::size_t i = first_parameter_; i < end_parameter_; ++i) {
    if (parameters[i].value.requires_grad()) leaves_.push_back(&parameters[i]);
  }
}

at::Tensor Stage::enter(const at::Tensor& input) {
  if (!range_.first) return input;
  at::Tensor activations = embed(input, *embedding_, anchor_, *context_.tensor_group);
  if (positions_ != nullptr) activations = activations + positions_->value.narrow(0, 0, input.size(1));
  return activations;
}

at::Tensor Stage::logits_of(const at::Tensor& activations) {
  return linear(enter_parallel((*norm_)(activations), *context_.tensor_group), output_);
}

at::Tensor Stage::logits(const at::Tensor& ids) {
  const AutoGradMode no_gradient(false);
  at::Tensor activations = enter(ids);
  for (const auto& block : blocks_) activations = block->forward(activations);
  return logits_of(activations);
}

at::Tensor Stage::leave(const at::Tensor& activations, const at::Tensor& targets) {
  if (!range_.last) return activations;
  const at::Tensor logits = logits_of(activations);
  return cross_entropy(logits.view({-1, logits.size(-1)}), targets.reshape({-1}), *context_.tensor_group);
}

at::Tensor Stage::forward(int microbatch, const at::Tensor& input, const at::Tensor& targets) {
  Pass pass;
  pass.input = range_.first ? input : input.detach().requires_grad_(true);
  pass.targets = targets;
  if (options_.recompute) {
    pass.output = forward_keeping_inputs(pass);
  } else {
    at::Tensor activations = enter(pass.input);
    for (const auto& block : blocks_) activations = block->forward(activations);
    pass.output = leave(activations, targets);
  }
  at::Tensor output = pass.output.detach();
  passes_[microbatch] = std::move(pass);
  return output;
}

/// The layers' insides are not kept; the last piece, from the last layer's output on, is.
at::Tensor Stage::forward_keeping_inputs(Pass& pass) {
  at::Tensor activations;
  {
    const AutoGradMode no_gradient(false);
    activations = enter(pass.input);
    for (const auto& block : blocks_) {
      pass.layer_inputs.push_back(activations);
      activations = block->forward(activations);
    }
  }
  if (!range_.last) return activations;
  activations = activations.detach().requires_grad_(true);
  pass.layer_inputs.push_back(activations);
  return leave(activations, pass.targets);
}

at::Tensor Stage::backward_recomputing(Pass& pass, at::Tensor gradient) {
  if (range_.last) {
    run_backward(pass.output, gradient);
    gradient = pass.layer_inputs.back().grad();
    pass.layer_inputs.pop_back();
  }
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
    const at::Tensor input = pass.layer_inputs.back().detach().requires_grad_(true);
    pass.layer_inputs.pop_back();
    run_backward((*block)->forward(input), gradient);
    gradient = input.grad();
  }
  if (!range_.first) return gradient;
  run_backward(enter(pass.input), gradient);
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
    if (!range_.first) input_gradient = pass.input.grad();
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
    leaf->accumulate(gradient);
    gradient.reset();
  }
}

void Stage::clear() {
  passes_.clear();
  deferred_.clear();
}

}  // namespace lowgear::trainer
