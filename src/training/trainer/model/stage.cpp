#include "training/trainer/model/stage.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "estimating/model/family.h"
#include "training/trainer/model/mlp.h"
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

/// A table of vectors of the layers' width, which every rank has whole.
Parameter& declare_table(const BlockContext& context, const std::string& name, std::int64_t rows) {
  return declare(context, {.name = name + ".weight", .shape = {rows, context.config->hidden}, .decays = true});
}

/// A matrix between the embedding's width and the layers', which every rank has whole.
LinearLayer::Shape projection(const std::string& name, std::int64_t inputs, std::int64_t outputs) {
  return {.pieces = {{name, outputs}}, .inputs = inputs};
}

}  // namespace

StageLayers::StageLayers(const BlockContext& context, const StageRange& range) : context_(context), range_(range) {
  const model::ModelConfig& config = *context_.config;
  context_.names = &family_of(config).tensors;
  const model::TensorNames& names = *context_.names;
  if (range_.first) {
    embedding_ = &declare_vocabulary_matrix(context_, names.embedding);
    embedding_->tied = config.tied_embeddings;
    if (config.token_types > 0) token_types_ = &declare_table(context_, names.token_types, config.token_types);
    if (config.positions == model::PositionKind::learned) {
      positions_ = &declare_table(context_, names.positions, config.max_positions + config.position_offset);
    }
    if (config.embedding_width > 0) {
      project_in_.emplace(context_, projection(names.project_in, config.embedding_width, config.hidden));
    }
    if (config.embedding_norm) embedding_norm_.emplace(context_, names.embedding_norm);
    if (config.positions == model::PositionKind::relative) {
      for (const model::TensorNames* const stack : {&names, &family_of(config).decoder_tensors}) {
        relative_positions_.push_back(
            &declare(context_, {.name = stack->relative_positions + ".weight",
                                .shape = {config.relative_buckets, config.heads / context_.tensor_group->size()},
                                .shard = {.dimension = 1},
                                .decays = true}));
      }
    }
  }
  for (std::int64_t layer = range_.layers.begin; layer < range_.layers.end; ++layer) {
    blocks_.push_back(make_block(context_, layer));
  }
  if (range_.last) {
    const model::TensorNames& last_names = family_of(config).decoder_tensors;
    BlockContext after = context_;
    after.names = &last_names;
    after.block = config.layers;
    after.fp8_blocks = nullptr;
    if (config.head_transform) {
      LinearLayer::Shape transform = projection(names.head_transform, config.hidden, config.hidden);
      transform.bias = true;
      head_transform_.emplace(after, transform);
    }
    if (config.final_norm) norm_.emplace(after, last_names.final_norm);
    if (config.embedding_width > 0) {
      project_out_.emplace(after, projection(names.project_out, config.hidden, config.embedding_width));
    }
    output_weight_ = &declare_vocabulary_matrix(after, config.tied_embeddings ? names.embedding : names.output);
    output_weight_->tied_copy = config.tied_embeddings;
    output_weight_->tied = config.tied_embeddings;
    if (config.head_transform) {
      output_bias_ = &declare(after, {.name = names.output_bias + ".bias",
                                      .shape = {config.vocabulary / context_.tensor_group->size()},
                                      .shard = {.dimension = 0}});
    }
  }
}

void StageLayers::bind() {
  for (const auto& block : blocks_) block->bind();
  for (std::optional<Norm>* const norm : {&embedding_norm_, &norm_}) {
    if (*norm) (*norm)->bind();
  }
  for (std::optional<LinearLayer>* const layer : {&project_in_, &head_transform_, &project_out_}) {
    if (*layer) (*layer)->bind();
  }
  for (Parameter* const leaf : {token_types_, positions_, output_bias_}) {
    if (leaf != nullptr) leaf->value.requires_grad_(!leaf->frozen);
  }
  for (Parameter* const leaf : relative_positions_) leaf->value.requires_grad_(!leaf->frozen);
  if (output_weight_ != nullptr) {
    output_->weight = output_weight_->value;
    output_->weight_gradient = output_weight_->gradient;  // undefined when frozen
    output_->queue = context_.queue;
    output_->store = context_.store;
  }
  anchor_ = at::zeros({}, context_.store->values().options()).requires_grad_(true);
}

Streams StageLayers::embedded(const Microbatch& microbatch) const {
  // One product with the table, of which schedules count the gradients.
  const bool both = microbatch.encoder_ids.defined();
  const at::Tensor ids = both ? at::cat({microbatch.encoder_ids, microbatch.ids}, 1) : microbatch.ids;
  const model::ModelConfig& config = *context_.config;
  at::Tensor activations = embed(ids, *embedding_, anchor_, *context_.tensor_group);
  if (project_in_) activations = (*project_in_)(activations);
  if (token_types_ != nullptr) activations = activations + token_types_->value.select(0, 0);
  if (positions_ != nullptr) {
    const at::Tensor& within = context_.documents->positions;
    // The backward of index_select adds in any order on GPUs.
    activations = activations + (within.defined() ? at::embedding(positions_->value, within + config.position_offset)
                                                  : positions_->value.narrow(0, config.position_offset, ids.size(1)));
  }
  if (embedding_norm_) activations = (*embedding_norm_)({activations}).normalised;
  activations = (*context_.dropout)(activations, config.embedding_dropout, {.layer = kEmbeddingBlock});
  Streams streams{.activations = {activations}};
  if (both) {
    const std::vector<at::Tensor> parts =
        activations.split_with_sizes({microbatch.encoder_ids.size(1), microbatch.ids.size(1)}, 1);
    streams.activations = {parts[0].contiguous()};
    streams.other = parts[1].contiguous();
  }
  if (!relative_positions_.empty()) {
    streams.relative_positions = at::stack({relative_positions_[0]->value, relative_positions_[1]->value});
  }
  if (config.balance_weight > 0) {
    streams.routing = at::zeros({2, config.experts->experts}, activations.options().dtype(at::kFloat));
  }
  return streams;
}

at::Tensor StageLayers::logits_of(const Streams& streams) {
  Activations entered = streams.activations;
  if (head_transform_) entered = {activated((*head_transform_)(entered.sum()), context_.config->activation)};
  const model::ModelConfig& config = *context_.config;
  at::Tensor last = norm_ ? (*norm_)(entered).normalised : entered.sum();
  last = (*context_.dropout)(last, config.final_dropout, {.layer = config.layers, .site = DropoutSite::last_norm});
  if (config.scaled_head) last = last / std::sqrt(static_cast<double>(config.hidden));
  if (project_out_) last = (*project_out_)(last);
  const at::Tensor logits = linear(enter_parallel(last, *context_.tensor_group), output_);
  return output_bias_ == nullptr ? logits : logits + output_bias_->value;
}

Streams StageLayers::through_blocks(Streams streams, std::size_t begin, std::size_t end) const {
  for (std::size_t block = begin; block < end; ++block) streams = blocks_[block]->forward(streams);
  return streams;
}

Tensors StageLayers::leave(const Streams& streams, const Microbatch& microbatch) {
  if (!range_.last) return streams.tensors();
  const at::Tensor logits = logits_of(streams);
  at::Tensor loss =
      cross_entropy(logits.view({-1, logits.size(-1)}), microbatch.targets.reshape({-1}), *context_.tensor_group);
  const double balance = context_.config->balance_weight * microbatch.balance_share;
  if (balance > 0) loss = loss + balance_loss(*context_.config, streams.routing, microbatch.targets.numel()) * balance;
  return {loss};
}

namespace {

using torch::autograd::AutoGradMode;

/// Of the outputs that depend on something trained.
void run_backward(const Tensors& outputs, const Tensors& gradients) {
  Tensors roots;
  Tensors of_roots;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    of_roots.push_back(gradients[i]);
  }
  torch::autograd::backward(roots, of_roots);
}

/// As leaves whose gradients are asked for or not.
Tensors leaves_of(const Tensors& tensors, bool with_gradients) {
  Tensors leaves;
  for (const at::Tensor& tensor : tensors) leaves.push_back(tensor.detach().requires_grad_(with_gradients));
  return leaves;
}

Tensors gradients_of(const Tensors& leaves) {
  Tensors gradients;
  for (const at::Tensor& leaf : leaves) gradients.push_back(leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf));
  return gradients;
}

}  // namespace

class Stage::Scope {
 public:
  Scope(Stage& stage, const Microbatch& microbatch)
      : documents_(&stage.documents_), drop_(stage.dropout_, microbatch.samples) {
    if (microbatch.documents.empty()) return;
    std::vector<at::Tensor> positions;
    for (const std::int64_t length : microbatch.documents) positions.push_back(at::arange(length, at::kLong));
    *documents_ = {microbatch.documents, at::cat(positions).to(stage.context_.store->values().device())};
  }
  ~Scope() { *documents_ = {}; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Documents* documents_;
  Dropout::Guard drop_;
};

Stage::Stage(const BlockContext& context, const StageRange& range)
    : context_(with_queue(context)),
      range_(range),
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

at::Tensor Stage::logits(const Microbatch& microbatch) {
  const AutoGradMode no_gradient(false);
  const Streams entered = received(microbatch, {});
  return layers_.logits_of(layers_.through_blocks(entered, 0, layers_.blocks().size()));
}

Tensors Stage::evaluate(const Microbatch& microbatch, const Tensors& input) {
  const AutoGradMode no_gradient(false);
  const Scope scope(*this, microbatch);
  const Streams entered = received(microbatch, input);
  return layers_.leave(layers_.through_blocks(entered, 0, layers_.blocks().size()), microbatch);
}

Streams Stage::received(const Microbatch& microbatch, const Tensors& input) const {
  return range_.first ? layers_.embedded(microbatch) : Streams::of(*context_.config, input);
}

/// From the stage's input to that of its first trained block.
Streams Stage::enter(const Pass& pass) const {
  if (trains_before_) return received(pass.microbatch, pass.input);
  const AutoGradMode no_gradient(false);
  return layers_.through_blocks(received(pass.microbatch, pass.input), 0, first_trained());
}

Tensors Stage::forward(int index, const Microbatch& microbatch, const Tensors& input) {
  const ExpertLoads::Guard loads(*context_.expert_loads, index);
  const Scope scope(*this, microbatch);
  Pass pass;
  pass.microbatch = microbatch;
  pass.input = leaves_of(input, trains_before_);
  if (recomputes_layers()) {
    pass.output = forward_keeping_inputs(pass);
  } else {
    pass.output =
        layers_.leave(layers_.through_blocks(enter(pass), first_trained(), layers_.blocks().size()), microbatch);
  }
  Tensors output = leaves_of(pass.output, false);
  passes_[index] = std::move(pass);
  return output;
}

std::int64_t Stage::kept_input_bytes(int index) const {
  std::int64_t bytes = 0;
  const auto found = passes_.find(index);
  if (found == passes_.end()) return bytes;
  for (const at::Tensor& tensor : found->second.input) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

/// The layers' insides are not kept; the last piece, from the last layer's output on, is.
Tensors Stage::forward_keeping_inputs(Pass& pass) {
  Tensors tensors;
  {
    const AutoGradMode no_gradient(false);
    tensors = enter(pass).tensors();
    for (std::size_t block = first_trained(); block < layers_.blocks().size(); ++block) {
      pass.layer_inputs.push_back(tensors);
      tensors = layers_.blocks()[block]->forward(Streams::of(*context_.config, tensors)).tensors();
    }
  }
  if (!range_.last) return tensors;
  tensors = leaves_of(tensors, true);
  pass.layer_inputs.push_back(tensors);
  return layers_.leave(Streams::of(*context_.config, tensors), pass.microbatch);
}

Tensors Stage::backward_recomputing(Pass& pass, Tensors gradients) {
  if (range_.last) {
    run_backward(pass.output, gradients);
    gradients = gradients_of(pass.layer_inputs.back());
    pass.layer_inputs.pop_back();
  }
  for (std::size_t block = layers_.blocks().size(); block > first_trained(); --block) {
    const bool passes_on = trains_before_ || block - 1 > first_trained();
    const Tensors inputs = leaves_of(pass.layer_inputs.back(), passes_on);
    pass.layer_inputs.pop_back();
    run_backward(layers_.blocks()[block - 1]->forward(Streams::of(*context_.config, inputs)).tensors(), gradients);
    gradients = passes_on ? gradients_of(inputs) : Tensors();
  }
  if (!trains_before_) return {};
  if (!range_.first) return gradients;
  run_backward(layers_.embedded(pass.microbatch).tensors(), gradients);
  return {};
}

Tensors Stage::backward(int index, const Tensors& output_gradients, WeightGradients when) {
  const auto found = passes_.find(index);
  TORCH_INTERNAL_ASSERT(found != passes_.end(), "a backward pass without its forward pass");
  Pass pass = std::move(found->second);
  passes_.erase(found);
  const Scope scope(*this, pass.microbatch);
  const WeightGradientQueue::Guard defer(queue_, when == WeightGradients::later ? &deferred_[index] : nullptr);
  Tensors input_gradients;
  if (recomputes_layers()) {
    input_gradients = backward_recomputing(pass, output_gradients);
  } else {
    run_backward(pass.output, output_gradients);
    if (trains_before_) input_gradients = gradients_of(pass.input);
  }
  collect_gradients();
  return input_gradients;
}

void Stage::weight_gradients(int index) {
  const auto found = deferred_.find(index);
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
    : config_(config),
      ranks_(&ranks),
      fp8_(options.fp8.value_or(Fp8Blocks{})),
      attention_biases_(config_, *ranks.tensor) {
  require_divisible(config_, ranks.tensor->size());
  const int last = static_cast<int>(partition.size()) - 1;
  for (const int stage : here) {
    const StageRange range{partition[static_cast<std::size_t>(stage)], stage == 0, stage == last};
    const BlockContext context{.config = &config_,
                               .store = &store_,
                               .tensor_group = ranks.tensor.get(),
                               .attention_biases = &attention_biases_,
                               .expert_loads = &expert_loads_,
                               .fp8_blocks = options.fp8 ? &fp8_ : nullptr,
                               .recompute = options.recompute};
    stages_[stage] = std::make_unique<Stage>(context, range);
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
