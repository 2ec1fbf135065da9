#include "training/trainer/model/layers.h"

#include <utility>

#include "estimating/model/family.h"

namespace lowgear::trainer {
Parameter& declare(const BlockContext& context, Parameter parameter) {
  parameter.shard.rank = context.tensor_group->rank();
  parameter.shard.ranks = context.tensor_group->size();
  parameter.block = context.block;
  return context.store->declare(std::move(parameter));
}

LinearLayer::LinearLayer(const BlockContext& context, const Shape& shape) : context_(context) {
  const int ranks = context.tensor_group->size();
  const bool by_columns = shape.split == Split::columns;
  const bool by_rows = shape.split == Split::rows;
  for (const Piece& piece : shape.pieces) {
    const std::int64_t rows = by_columns ? piece.rows / ranks : piece.rows;
    const std::int64_t inputs = by_rows ? shape.inputs / ranks : shape.inputs;
    const std::int64_t dimension = by_columns ? 0 : by_rows ? 1 : -1;
    weights_.push_back(&declare(context, {.name = piece.name + ".weight",
                                          .shape = {rows, inputs},
                                          .shard = {.dimension = dimension, .groups = by_columns ? piece.groups : 1},
                                          .transposed = shape.transposed_in_files,
                                          .decays = true,
                                          .linear = shape.linear}));
  }
  if (!shape.bias) return;
  for (const Piece& piece : shape.pieces) {
    const std::int64_t rows = by_columns ? piece.rows / ranks : piece.rows;
    Parameter& bias =
        declare(context, {.name = piece.name + ".bias",
                          .shape = {rows},
                          .shard = {.dimension = by_columns ? 0 : -1, .groups = by_columns ? piece.groups : 1},
                          .linear = shape.linear});
    if (by_rows && ranks > 1)
      late_bias_ = &bias;
    else
      biases_.push_back(&bias);
  }
}

void LinearLayer::bind() {
  const ParameterStore& store = *context_.store;
  const bool trained = !weights_.front()->frozen;
  const auto gradient = [&](const Parameter& first, const Parameter& last) {
    return trained ? joined(store.gradients(), first, last) : at::Tensor();
  };
  weight_->weight = joined(store.values(), *weights_.front(), *weights_.back());
  weight_->weight_gradient = gradient(*weights_.front(), *weights_.back());
  weight_->queue = context_.queue;
  weight_->store = context_.store;
  weight_->parameter = weights_.front();
  weight_->fp8_blocks = context_.fp8_blocks;
  weight_->fp8.reset();
  if (late_bias_ != nullptr) late_bias_->value.requires_grad_(trained);
  if (biases_.empty()) return;
  weight_->bias = joined(store.values(), *biases_.front(), *biases_.back());
  weight_->bias_gradient = gradient(*biases_.front(), *biases_.back());
}

Norm::Norm(const BlockContext& context, const std::string& name)
    : parameters_{.weight = &declare(context, {.name = name + ".weight", .shape = {context.config->hidden}}),
                  .epsilon = context.config->norm_epsilon} {
  if (context.config->norm == model::NormKind::layer_norm) {
    parameters_.bias = &declare(context, {.name = name + ".bias", .shape = {context.config->hidden}});
  }
}

void Norm::bind() {
  for (Parameter* parameter : {parameters_.weight, parameters_.bias}) {
    if (parameter != nullptr) parameter->value.requires_grad_(!parameter->frozen);
  }
}

LinearLayer::Shape by_rows(const model::ModelConfig& config, std::string name, std::int64_t inputs, bool bias,
                           BlockLinear linear) {
  return {.pieces = {{std::move(name), config.hidden}},
          .inputs = inputs,
          .split = LinearLayer::Split::rows,
          .bias = bias,
          .transposed_in_files = family_of(config).tensors.transposed,
          .linear = linear};
}

at::Tensor asking_for_gradients(const at::Tensor& input) {
  const bool asked = !torch::autograd::GradMode::is_enabled() || input.requires_grad();
  return asked ? input : input.detach().requires_grad_(true);
}

at::Tensor with_late_bias(const at::Tensor& sum, const LinearLayer& layer) {
  return layer.late_bias() != nullptr ? sum + layer.late_bias()->value : sum;
}

}  // namespace lowgear::trainer
