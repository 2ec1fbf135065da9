#include "training/trainer/model/transformer.h"

#include <string>

#include "estimating/model/parameters.h"
#include "training/trainer/model/attention.h"
#include "training/trainer/model/mlp.h"

namespace lowgear::trainer {
namespace {

class Block final : public TransformerBlock {
 public:
  Block(const BlockContext& context, const model::TensorNames& names, std::int64_t layer)
      : Block(context, names, model::layer_prefix(names, layer), layer) {}

  void bind() override {
    attention_norm_.bind();
    attention_.bind();
    mlp_norm_.bind();
    mlp_->bind();
  }

  Streams forward(const Streams& input) override {
    Streams output = input;
    output.activations = config_->norm_place == model::NormPlace::after
                             ? forward_normalising_sums(input.activations.sum(), output.routing)
                             : forward_normalising_inputs(input.activations, output.routing);
    return output;
  }

 private:
  Block(const BlockContext& context, const model::TensorNames& names, const std::string& prefix, std::int64_t layer)
      : config_(context.config),
        attention_norm_(context, prefix + names.attention_norm),
        attention_(context, prefix, layer),
        mlp_norm_(context, prefix + names.mlp_norm),
        mlp_(make_mlp(context, prefix, layer)) {}

  Activations forward_normalising_inputs(const Activations& input, at::Tensor& routing) {
    const NormalisedSum entered = attention_norm_(input);
    if (config_->parallel_residual) {
      const at::Tensor attended = attention_(entered.normalised);
      return {entered.sum, attended + (*mlp_)(mlp_norm_({entered.sum}).normalised, routing)};
    }
    const NormalisedSum attended = mlp_norm_({entered.sum, attention_(entered.normalised)});
    return {attended.sum, (*mlp_)(attended.normalised, routing)};
  }

  /// Products take their gradients with that of their input, which nothing before has asked for where it is frozen.
  Activations forward_normalising_sums(at::Tensor input, at::Tensor& routing) {
    if (torch::autograd::GradMode::is_enabled() && !input.requires_grad()) {
      input = input.detach().requires_grad_(true);
    }
    const at::Tensor attended = attention_norm_({input, attention_(input)}).normalised;
    return {mlp_norm_({attended, (*mlp_)(attended, routing)}).normalised};
  }

  const model::ModelConfig* config_;
  Norm attention_norm_;
  Attention attention_;
  Norm mlp_norm_;
  std::unique_ptr<Mlp> mlp_;
};

}  // namespace

Tensors Streams::tensors() const {
  Tensors tensors = {activations.sum()};
  if (routing.defined()) tensors.push_back(routing);
  return tensors;
}

Streams Streams::of(const model::ModelConfig& config, const Tensors& tensors) {
  Streams streams{.activations = {tensors.at(0)}};
  if (config.balance_weight > 0) streams.routing = tensors.at(1);
  return streams;
}

std::vector<StreamShape> stream_shapes(const model::ModelConfig& config, std::int64_t batch, std::int64_t time) {
  std::vector<StreamShape> shapes = {{.shape = {batch, time, config.hidden}}};
  if (config.balance_weight > 0) shapes.push_back({.shape = {2, config.experts->experts}, .in_fp32 = true});
  return shapes;
}

at::Tensor balance_loss(const model::ModelConfig& config, const at::Tensor& routing, std::int64_t tokens) {
  std::int64_t layers = 0;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) layers += has_experts(config, layer) ? 1 : 0;
  const at::Tensor means = routing / static_cast<double>(layers * tokens);
  return (means.select(0, 0) * means.select(0, 1)).sum() * static_cast<double>(config.experts->experts);
}

std::unique_ptr<TransformerBlock> make_block(BlockContext context, std::int64_t layer) {
  context.block = layer;
  if (context.fp8_blocks != nullptr && !context.fp8_blocks->covers(layer)) context.fp8_blocks = nullptr;
  return std::make_unique<Block>(context, family_of(*context.config).tensors, layer);
}

}  // namespace lowgear::trainer
