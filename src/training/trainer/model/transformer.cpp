#include "training/trainer/model/transformer.h"

#include <optional>
#include <string>
#include <utility>

#include "estimating/model/parameters.h"
#include "training/trainer/model/attention.h"
#include "training/trainer/model/attention_part.h"
#include "training/trainer/model/mlp.h"

namespace lowgear::trainer {
namespace {

class Block final : public TransformerBlock {
 public:
  Block(const BlockContext& context, std::int64_t layer) : Block(context, layer, layer_prefix(*context.config, layer)) {
    const model::ModelConfig& config = *context.config;
    if (attends_to_encoder(config, layer)) {
      cross_norm_.emplace(context, prefix_ + context.names->cross_norm);
      cross_.emplace(context, prefix_, layer);
      cross_part_.emplace(context, &*cross_norm_, *cross_);
    }
    if (has_encoder_and_decoder(config) && layer + 1 == config.encoder_layers) {
      encoder_norm_.emplace(context, context.names->final_norm);
    }
  }

  void bind() override {
    attention_norm_.bind();
    attention_.bind();
    if (cross_) cross_norm_->bind();
    if (cross_) cross_->bind();
    mlp_norm_.bind();
    mlp_->bind();
    if (encoder_norm_) encoder_norm_->bind();
  }

  Streams forward(const Streams& input) override {
    Streams output = input;
    output.activations = config_->norm_place == model::NormPlace::after
                             ? forward_normalising_sums(input.activations.sum(), output.routing)
                             : forward_normalising_inputs(input, output.routing);
    if (!encoder_norm_) return output;
    output.other = (*dropout_)((*encoder_norm_)(output.activations).normalised, config_->final_dropout,
                               {.layer = layer_, .site = DropoutSite::last_norm});
    output.activations = {input.other};
    return output;
  }

 private:
  Block(const BlockContext& context, std::int64_t layer, std::string prefix)
      : config_(context.config),
        dropout_(context.dropout),
        layer_(layer),
        prefix_(std::move(prefix)),
        attention_norm_(context, prefix_ + context.names->attention_norm),
        attention_(context, prefix_, layer),
        attention_part_(context, config_->norm_place == model::NormPlace::after ? nullptr : &attention_norm_,
                        attention_),
        mlp_norm_(context, prefix_ + context.names->mlp_norm),
        mlp_(make_mlp(context, prefix_, layer)) {}

  Activations forward_normalising_inputs(const Streams& input, at::Tensor& routing) {
    Activations attended = attention_part_(input.activations, relative_positions_of(input));
    const at::Tensor& sum = attended.residual;
    if (config_->parallel_residual) return {sum, attended.branch + (*mlp_)(mlp_norm_({sum}).normalised, routing)};
    if (cross_part_) attended = (*cross_part_)(attended, input.other);
    const NormalisedSum last = mlp_norm_(attended);
    return {last.sum, (*mlp_)(last.normalised, routing)};
  }

  Activations forward_normalising_sums(const at::Tensor& sum, at::Tensor& routing) {
    const at::Tensor input = asking_for_gradients(sum);
    const at::Tensor attended = attention_norm_(attention_part_({input}, {})).normalised;
    return {mlp_norm_({attended, (*mlp_)(attended, routing)}).normalised};
  }

  /// Of the stack that the layer is in.
  [[nodiscard]] at::Tensor relative_positions_of(const Streams& input) const {
    if (!input.relative_positions.defined()) return {};
    return input.relative_positions.select(0, attends_to_encoder(*config_, layer_) ? 1 : 0);
  }

  const model::ModelConfig* config_;
  const Dropout* dropout_;
  std::int64_t layer_;
  std::string prefix_;
  Norm attention_norm_;
  Attention attention_;
  AttentionPart attention_part_;
  std::optional<Norm> cross_norm_;
  std::optional<CrossAttention> cross_;
  std::optional<AttentionPart> cross_part_;
  Norm mlp_norm_;
  std::unique_ptr<Mlp> mlp_;
  std::optional<Norm> encoder_norm_;  ///< after the last layer of an encoder
};

}  // namespace

Tensors Streams::tensors() const {
  Tensors tensors = {activations.sum()};
  for (const at::Tensor& beside : {routing, other, relative_positions}) {
    if (beside.defined()) tensors.push_back(beside);
  }
  return tensors;
}

Streams Streams::of(const model::ModelConfig& config, const Tensors& tensors) {
  std::size_t next = 0;
  Streams streams{.activations = {tensors.at(next++)}};
  if (config.balance_weight > 0) streams.routing = tensors.at(next++);
  if (has_encoder_and_decoder(config)) streams.other = tensors.at(next++);
  if (config.positions == model::PositionKind::relative) streams.relative_positions = tensors.at(next);
  return streams;
}

std::vector<StreamShape> stream_shapes(const model::ModelConfig& config, std::int64_t batch, std::int64_t time,
                                       int tensor_ranks) {
  std::vector<StreamShape> shapes = {{.shape = {batch, time, config.hidden}}};
  if (config.balance_weight > 0) shapes.push_back({.shape = {2, config.experts->experts}, .in_fp32 = true});
  if (has_encoder_and_decoder(config)) shapes.push_back(StreamShape(shapes.front()));
  if (config.positions == model::PositionKind::relative) {
    shapes.push_back({.shape = {2, config.relative_buckets, config.heads / tensor_ranks}});
  }
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
  context.names = &layer_names(*context.config, layer);
  return std::make_unique<Block>(context, layer);
}

}  // namespace lowgear::trainer
