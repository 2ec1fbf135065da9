#include "training/trainer/model/stage.h"

#include <algorithm>
#include <utility>

#include "estimating/model/family.h"
#include "training/trainer/model/operations.h"

namespace lowgear::trainer {

namespace {

Parameter& declare_vocabulary_matrix(const BlockContext& context, const std::string& name) {
  return declare(
      context, {.name = name + ".weight",
                .shape = {context.config->vocabulary / context.tensor_group->size(), embedding_width(*context.config)},
                .shard = {.dimension = 0},
                .decays = true});
}

Parameter& declare_positions(const BlockContext& context, const std::string& name) {
  const model::ModelConfig& config = *context.config;
  return declare(context, {.name = name + ".weight",
                           .shape = {config.max_positions + config.position_offset, config.hidden},
                           .decays = true});
}

/// A matrix between the embedding's width and the layers', which every rank has whole.
LinearLayer::Shape projection(const std::string& name, std::int64_t inputs, std::int64_t outputs) {
  return {.pieces = {{name, outputs}}, .inputs = inputs};
}

}  // namespace

StageLayers::StageLayers(const BlockContext& context, const StageRange& range) : context_(context), range_(range) {
  const model::ModelConfig& config = *context_.config;
  const model::TensorNames& names = family_of(config).tensors;
  if (range_.first) {
    embedding_ = &declare_vocabulary_matrix(context_, names.embedding);
    embedding_->tied = config.tied_embeddings;
    if (config.positions == model::PositionKind::learned) positions_ = &declare_positions(context_, names.positions);
    if (config.embedding_width > 0) {
      project_in_.emplace(context_, projection(names.project_in, config.embedding_width, config.hidden));
    }
    if (config.embedding_norm) embedding_norm_.emplace(context_, names.embedding_norm);
  }
  for (std::int64_t layer = range_.layers.begin; layer < range_.layers.end; ++layer) {
    blocks_.push_back(make_block(context_, layer));
  }
  if (range_.last) {
    BlockContext after = context_;
    after.block = config.layers;
    after.fp8_blocks = nullptr;
    if (config.final_norm) norm_.emplace(after, names.final_norm);
    if (config.embedding_width > 0) {
      project_out_.emplace(after, projection(names.project_out, config.hidden, config.embedding_width));
    }
    output_weight_ = &declare_vocabulary_matrix(after, config.tied_embeddings ? names.embedding : names.output);
    output_weight_->tied_copy = config.tied_embeddings;
    output_weight_->tied = config.tied_embeddings;
  }
}

void StageLayers::bind() {
  for (const auto& block : blocks_) block->bind();
  for (std::optional<Norm>* const norm : {&embedding_norm_, &norm_}) {
    if (*norm) (*norm)->bind();
  }
  for (std::optional<LinearLayer>* const layer : {&project_in_, &project_out_}) {
    if (*layer) (*layer)->bind();
  }
  if (positions_ != nullptr) positions_->value.requires_grad_(!positions_->frozen);
  if (output_weight_ != nullptr) {
    output_->weight = output_weight_->value;
    output_->weight_gradient = output_weight_->gradient;  // undefined when frozen
    output_->queue = context_.queue;
    output_->store = context_.store;
  }
  anchor_ = at::zeros({}, context_.store->values().options()).requires_grad_(true);
}

at::Tensor StageLayers::enter(const at::Tensor& input) const {
  if (!range_.first) return input;
  const model::ModelConfig& config = *context_.config;
  at::Tensor activations = embed(input, *embedding_, anchor_, *context_.tensor_group);
  if (project_in_) activations = (*project_in_)(activations);
  if (positions_ != nullptr) {
    const at::Tensor& within = context_.documents->positions;
    activations = activations + (within.defined() ? positions_->value.index_select(0, within + config.position_offset)
                                                  : positions_->value.narrow(0, config.position_offset, input.size(1)));
  }
  if (embedding_norm_) activations = (*embedding_norm_)({activations}).normalised;
  return (*context_.dropout)(activations, config.embedding_dropout, {.layer = kEmbeddingBlock});
}

at::Tensor StageLayers::logits_of(const Activations& activations) {
  at::Tensor last = norm_ ? (*norm_)(activations).normalised : activations.sum();
  if (project_out_) last = (*project_out_)(last);
  return linear(enter_parallel(last, *context_.tensor_group), output_);
}

Activations StageLayers::through_blocks(Activations activations, std::size_t begin, std::size_t end) const {
  for (std::size_t block = begin; block < end; ++block) activations = blocks_[block]->forward(activations);
  return activations;
}

at::Tensor StageLayers::leave(const Activations& activations, const at::Tensor& targets) {
  if (!range_.last) return activations.sum();
  const at::Tensor logits = logits_of(activations);
  return cross_entropy(logits.view({-1, logits.size(-1)}), targets.reshape({-1}), *context_.tensor_group);
}

namespace {

using torch::autograd::AutoGradMode;

void run_backward(const at::Tensor& output, const at::Tensor& gradient) {
  torch::autograd::backward({output}, {gradient});
}

}  // namespace

class Stage::Scope {
 public:
  Scope(Stage& stage, const PassSamples& samples) : documents_(&stage.documents_), drop_(stage.dropout_, samples.keys) {
    if (samples.documents.empty()) return;
    std::vector<at::Tensor> positions;
    for (const std::int64_t length : samples.documents) positions.push_back(at::arange(length, at::kLong));
    *documents_ = {samples.documents, at::cat(positions).to(stage.context_.store->values().device())};
  }
  ~Scope() { *documents_ = {}; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Documents* documents_;
  Dropout::Guard drop_;
};

Stage::Stage(const BlockContext& context, const StageRange& range, StageOptions options)
    : context_(with_queue(context)),
      range_(range),
      options_(options),
      first_parameter_(context_.store->parameters().size()),
      layers_(context_, range),
      end_parameter_(context_.store->parameters().size()) {}

/// Weight gradients may be left for later, and masks follow from the samples of the pass.
BlockContext Stage::with_queue(BlockContext context) {
  context.queue = &queue_;
  context.dropout = &dropout_;
  context.documents = &documents_;
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
  return layers_.logits_of(layers_.through_blocks({layers_.enter(ids)}, 0, layers_.blocks().size()));
}

at::Tensor Stage::evaluate(const at::Tensor& input, const at::Tensor& targets, const PassSamples& samples) {
  const AutoGradMode no_gradient(false);
  const Scope scope(*this, samples);
  return layers_.leave(layers_.through_blocks({layers_.enter(input)}, 0, layers_.blocks().size()), targets);
}

/// From the stage's input to that of its first trained block.
Activations Stage::enter(const at::Tensor& input) const {
  if (trains_before_) return {layers_.enter(input)};
  const AutoGradMode no_gradient(false);
  return layers_.through_blocks({layers_.enter(input)}, 0, first_trained());
}

at::Tensor Stage::forward(int microbatch, const at::Tensor& input, const at::Tensor& targets,
                          const PassSamples& samples) {
  const Scope scope(*this, samples);
  Pass pass;
  pass.samples = samples;
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
    activations = enter(pass.input).sum();
    for (std::size_t block = first_trained(); block < layers_.blocks().size(); ++block) {
      pass.layer_inputs.push_back(activations);
      activations = layers_.blocks()[block]->forward({activations}).sum();
    }
  }
  if (!range_.last) return activations;
  activations = activations.detach().requires_grad_(true);
  pass.layer_inputs.push_back(activations);
  return layers_.leave({activations}, pass.targets);
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
    run_backward(layers_.blocks()[block - 1]->forward({input}).sum(), gradient);
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
  const Scope scope(*this, pass.samples);
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

ModelPart::ModelPart(const model::ModelConfig& config, std::span<const model::LayerRange> partition,
                     const std::vector<int>& here, const ModelPartOptions& options, const Communicators& ranks)
    : config_(config), ranks_(&ranks), fp8_(options.fp8.value_or(Fp8Blocks{})) {
  require_divisible(config_, ranks.tensor->size());
  const int last = static_cast<int>(partition.size()) - 1;
  for (const int stage : here) {
    const StageRange range{partition[static_cast<std::size_t>(stage)], stage == 0, stage == last};
    const BlockContext context{.config = &config_,
                               .store = &store_,
                               .tensor_group = ranks.tensor.get(),
                               .fp8_blocks = options.fp8 ? &fp8_ : nullptr};
    stages_[stage] = std::make_unique<Stage>(context, range, StageOptions{.recompute = options.recompute});
  }
  store_.freeze(options.frozen_blocks);
  store_.allocate(options.type, options.device, options.buffer_multiple);
  bind();
}

void ModelPart::bind() {
  for (const auto& [index, stage] : stages_) stage->bind();
}

void ModelPart::use_fp8(bool on) { fp8_.on = on; }

void ModelPart::dismiss() {
  stages_.clear();
  store_.release_gradients();
}

std::map<int, Stage*> ModelPart::stages() {
  std::map<int, Stage*> stages;
  for (const auto& [index, stage] : stages_) stages[index] = stage.get();
  return stages;
}

Parameter* ModelPart::find_tied(bool copy) {
  const bool here = copy ? stages_.rbegin()->second->range().last : stages_.begin()->second->range().first;
  if (!here) return nullptr;
  auto& parameters = store_.parameters();
  if (!copy) return &parameters.front();
  for (Parameter& parameter : parameters) {
    if (parameter.tied_copy) return &parameter;
  }
  return nullptr;
}

void ModelPart::reduce_tied_gradients() {
  if (!config_.tied_embeddings || store_.frozen_blocks() > 0) return;
  Parameter* embedding = find_tied(false);
  Parameter* copy = find_tied(true);
  if (embedding != nullptr && copy != nullptr) {
    embedding->gradient.add_(copy->gradient);
    copy->gradient.copy_(embedding->gradient);
  } else if (embedding != nullptr || copy != nullptr) {
    ranks_->tied->all_reduce(embedding != nullptr ? embedding->gradient : copy->gradient);
  }
}

}  // namespace lowgear::trainer
