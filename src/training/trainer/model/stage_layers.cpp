#include "training/trainer/model/stage_layers.h"

#include <utility>

#include "training/trainer/model/tensor_parallel.h"

namespace lowgear::trainer {
namespace {

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
  parameter.block = context.block;
  return context.store->declare(std::move(parameter));
}

Parameter& declare_positions(const BlockContext& context, const char* name) {
  Parameter parameter;
  parameter.name = name;
  parameter.shape = {context.config->max_positions, context.config->hidden};
  parameter.decays = true;
  parameter.block = context.block;
  return context.store->declare(std::move(parameter));
}

}  // namespace

StageLayers::StageLayers(const BlockContext& context, const StageRange& range) : context_(context), range_(range) {
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
    BlockContext after = context_;
    after.block = config.layers;
    norm_.emplace(after, names.norm);
    output_weight_ = &declare_vocabulary_matrix(after, config.tied_embeddings ? names.embedding : "lm_head.weight");
    output_weight_->tied_copy = config.tied_embeddings;
    output_weight_->tied = config.tied_embeddings;
  }
}

void StageLayers::bind() {
  for (const auto& block : blocks_) block->bind();
  if (norm_) norm_->bind();
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
  at::Tensor activations = embed(input, *embedding_, anchor_, *context_.tensor_group);
  if (positions_ != nullptr) activations = activations + positions_->value.narrow(0, 0, input.size(1));
  return activations;
}

at::Tensor StageLayers::logits_of(const at::Tensor& activations) {
  return linear(enter_parallel((*norm_)(activations), *context_.tensor_group), output_);
}

at::Tensor StageLayers::through_blocks(at::Tensor activations, std::size_t begin, std::size_t end) const {
  for (std::size_t block = begin; block < end; ++block) activations = blocks_[block]->forward(activations);
  return activations;
}

at::Tensor StageLayers::leave(const at::Tensor& activations, const at::Tensor& targets) {
  if (!range_.last) return activations;
  const at::Tensor logits = logits_of(activations);
  return cross_entropy(logits.view({-1, logits.size(-1)}), targets.reshape({-1}), *context_.tensor_group);
}

}  // namespace lowgear::trainer
