#include "training/trainer/model/transformer.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "training/trainer/model/operations.h"

namespace lowgear::trainer {

namespace {

TensorShard shard_of(const BlockContext& context, std::int64_t dimension, int groups = 1) {
  return {.dimension = dimension,
          .rank = context.tensor_group->rank(),
          .ranks = context.tensor_group->size(),
          .groups = groups};
}

/// A new parameter, of which this rank holds `shape`.
Parameter& declare(const BlockContext& context, std::string name, std::vector<std::int64_t> shape, TensorShard shard,
                   bool decays, BlockLinear linear = BlockLinear::none) {
  Parameter parameter;
  parameter.name = std::move(name);
  parameter.shape = std::move(shape);
  parameter.shard = shard;
  parameter.decays = decays;
  parameter.block = context.block;
  parameter.linear = linear;
  return context.store->declare(std::move(parameter));
}

/// [batch, time, heads * head_dim] to [batch, heads, time, head_dim].
at::Tensor by_head(const at::Tensor& input, std::int64_t head_dim) {
  return input.view({input.size(0), input.size(1), -1, head_dim}).transpose(1, 2);
}

at::Tensor heads_joined(const at::Tensor& input) {
  return input.transpose(1, 2).reshape({input.size(0), input.size(2), -1});
}

double attention_scale(const model::ModelConfig& config) {
  return 1.0 / std::sqrt(static_cast<double>(config.head_dim));
}

at::Tensor with_late_bias(const at::Tensor& output, const LinearLayer& layer) {
  return layer.late_bias() != nullptr ? output + layer.late_bias()->value : output;
}

class LlamaBlock final : public TransformerBlock {
 public:
  LlamaBlock(const BlockContext& context, std::int64_t layer)
      : LlamaBlock(context, *context.config, fmt::format("model.layers.{}.", layer)) {}

  void bind() override {
    attention_norm_.bind();
    qkv_.bind();
    output_.bind();
    mlp_norm_.bind();
    gate_up_.bind();
    down_.bind();
  }

  Activations forward(const Activations& input) override {
    const NormalisedSum entered = attention_norm_(input);
    const NormalisedSum attended = mlp_norm_({entered.sum, attention(entered.normalised)});
    return {attended.sum, mlp(attended.normalised)};
  }

 private:
  LlamaBlock(const BlockContext& context, const model::ModelConfig& config, const std::string& prefix)
      : group_(context.tensor_group),
        heads_{config.heads / group_->size(), config.kv_heads / group_->size(), config.head_dim},
        scale_(attention_scale(config)),
        angles_(config),
        attention_norm_(context, prefix + "input_layernorm"),
        qkv_(context, {.pieces = {{prefix + "self_attn.q_proj", config.heads * config.head_dim},
                                  {prefix + "self_attn.k_proj", config.kv_heads * config.head_dim},
                                  {prefix + "self_attn.v_proj", config.kv_heads * config.head_dim}},
                       .inputs = config.hidden,
                       .split = LinearLayer::Split::columns,
                       .bias = config.qkv_biases,
                       .linear = BlockLinear::attention_in}),
        output_(context, {.pieces = {{prefix + "self_attn.o_proj", config.hidden}},
                          .inputs = config.heads * config.head_dim,
                          .split = LinearLayer::Split::rows,
                          .bias = config.output_bias,
                          .linear = BlockLinear::attention_out}),
        mlp_norm_(context, prefix + "post_attention_layernorm"),
        gate_up_(context, {.pieces = {{prefix + "mlp.gate_proj", config.intermediate},
                                      {prefix + "mlp.up_proj", config.intermediate}},
                           .inputs = config.hidden,
                           .split = LinearLayer::Split::columns,
                           .bias = config.mlp_biases,
                           .linear = BlockLinear::mlp_in}),
        down_(context, {.pieces = {{prefix + "mlp.down_proj", config.hidden}},
                        .inputs = config.intermediate,
                        .split = LinearLayer::Split::rows,
                        .bias = config.mlp_biases,
                        .linear = BlockLinear::mlp_out}) {}

  at::Tensor attention(const at::Tensor& input) {
    angles_.prepare(input.size(1), input.device());
    const at::Tensor joined = qkv_(enter_parallel(input, *group_));
    const auto [query, key, value] = split_and_rotate(joined, angles_.cosine(), angles_.sine(), heads_);
    const at::Tensor mixed = compat::causal_attention(query, key, value, scale_);
    return with_late_bias(leave_parallel(output_(heads_joined(mixed)), *group_), output_);
  }

  at::Tensor mlp(const at::Tensor& input) {
    const at::Tensor wide = swiglu(gate_up_(enter_parallel(input, *group_)));
    return with_late_bias(leave_parallel(down_(wide), *group_), down_);
  }

  Collective* group_;
  kernels::AttentionHeads heads_;
  double scale_;
  RotaryAngles angles_;
  Norm attention_norm_;
  LinearLayer qkv_;
  LinearLayer output_;
  Norm mlp_norm_;
  LinearLayer gate_up_;
  LinearLayer down_;
};

class Gpt2Block final : public TransformerBlock {
 public:
  Gpt2Block(const BlockContext& context, std::int64_t layer)
      : Gpt2Block(context, *context.config, fmt::format("transformer.h.{}.", layer)) {}

  void bind() override {
    attention_norm_.bind();
    qkv_.bind();
    output_.bind();
    mlp_norm_.bind();
    up_.bind();
    down_.bind();
  }

  Activations forward(const Activations& input) override {
    const NormalisedSum entered = attention_norm_(input);
    const NormalisedSum attended = mlp_norm_({entered.sum, attention(entered.normalised)});
    const at::Tensor wide = at::gelu(up_(enter_parallel(attended.normalised, *group_)), "tanh");
    return {attended.sum, with_late_bias(leave_parallel(down_(wide), *group_), down_)};
  }

 private:
  Gpt2Block(const BlockContext& context, const model::ModelConfig& config, const std::string& prefix)
      : group_(context.tensor_group),
        head_dim_(config.head_dim),
        scale_(attention_scale(config)),
        attention_norm_(context, prefix + "ln_1"),
        qkv_(context, {.pieces = {{.name = prefix + "attn.c_attn", .rows = 3 * config.hidden, .groups = 3}},
                       .inputs = config.hidden,
                       .split = LinearLayer::Split::columns,
                       .bias = true,
                       .transposed_in_files = true,
                       .linear = BlockLinear::attention_in}),
        output_(context,
                layer_by_rows(prefix + "attn.c_proj", config.hidden, config.hidden, BlockLinear::attention_out)),
        mlp_norm_(context, prefix + "ln_2"),
        up_(context, {.pieces = {{prefix + "mlp.c_fc", config.intermediate}},
                      .inputs = config.hidden,
                      .split = LinearLayer::Split::columns,
                      .bias = true,
                      .transposed_in_files = true,
                      .linear = BlockLinear::mlp_in}),
        down_(context, layer_by_rows(prefix + "mlp.c_proj", config.intermediate, config.hidden, BlockLinear::mlp_out)) {
  }

  static LinearLayer::Shape layer_by_rows(const std::string& name, std::int64_t inputs, std::int64_t outputs,
                                          BlockLinear linear) {
    return {.pieces = {{name, outputs}},
            .inputs = inputs,
            .split = LinearLayer::Split::rows,
            .bias = true,
            .transposed_in_files = true,
            .linear = linear};
  }

  at::Tensor attention(const at::Tensor& input) {
    const std::vector<at::Tensor> parts = qkv_(enter_parallel(input, *group_)).chunk(3, -1);
    const at::Tensor mixed = compat::causal_attention(by_head(parts[0], head_dim_), by_head(parts[1], head_dim_),
                                                      by_head(parts[2], head_dim_), scale_);
    return with_late_bias(leave_parallel(output_(heads_joined(mixed)), *group_), output_);
  }

  Collective* group_;
  std::int64_t head_dim_;
  double scale_;
  Norm attention_norm_;
  LinearLayer qkv_;
  LinearLayer output_;
  Norm mlp_norm_;
  LinearLayer up_;
  LinearLayer down_;
};

}  // namespace

LinearLayer::LinearLayer(const BlockContext& context, const Shape& shape) : context_(context) {
  const int ranks = context.tensor_group->size();
  const bool by_columns = shape.split == Split::columns;
  const bool by_rows = shape.split == Split::rows;
  for (const Piece& piece : shape.pieces) {
    const std::int64_t rows = by_columns ? piece.rows / ranks : piece.rows;
    const std::int64_t inputs = by_rows ? shape.inputs / ranks : shape.inputs;
    const std::int64_t dimension = by_columns ? 0 : by_rows ? 1 : -1;
    Parameter& weight = declare(context, piece.name + ".weight", {rows, inputs},
                                shard_of(context, dimension, by_columns ? piece.groups : 1), true, shape.linear);
    weight.transposed = shape.transposed_in_files;
    weights_.push_back(&weight);
  }
  if (!shape.bias) return;
  for (const Piece& piece : shape.pieces) {
    const std::int64_t rows = by_columns ? piece.rows / ranks : piece.rows;
    Parameter& bias =
        declare(context, piece.name + ".bias", {rows},
                shard_of(context, by_columns ? 0 : -1, by_columns ? piece.groups : 1), false, shape.linear);
    if (by_rows)
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
    : parameters_{.weight = &declare(context, name + ".weight", {context.config->hidden}, shard_of(context, -1), false),
                  .epsilon = context.config->norm_epsilon} {
  if (context.config->norm == model::NormKind::layer_norm) {
    parameters_.bias = &declare(context, name + ".bias", {context.config->hidden}, shard_of(context, -1), false);
  }
}

void Norm::bind() {
  for (Parameter* parameter : {parameters_.weight, parameters_.bias}) {
    if (parameter != nullptr) parameter->value.requires_grad_(!parameter->frozen);
  }
}

std::unique_ptr<TransformerBlock> make_block(BlockContext context, std::int64_t layer) {
  context.block = layer;
  if (context.fp8_blocks != nullptr && !context.fp8_blocks->covers(layer)) context.fp8_blocks = nullptr;
  if (trained_type(*context.config) == "gpt2") return std::make_unique<Gpt2Block>(context, layer);
  return std::make_unique<LlamaBlock>(context, layer);
}

namespace {

/// Llama 3.1: long waves are stretched by the factor, short ones left alone, those between blended. As Hugging Face's
/// `_compute_llama3_parameters`.
float llama3_scaled(float frequency, const model::RopeScaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto original = static_cast<double>(scaling.original_max_positions);
  if (wavelength < original / scaling.high_frequency_factor) return frequency;
  if (wavelength > original / scaling.low_frequency_factor) return static_cast<float>(frequency / scaling.factor);
  const double smooth = (original / wavelength - scaling.low_frequency_factor) /
                        (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return static_cast<float>((1 - smooth) * frequency / scaling.factor + smooth * frequency);
}

}  // namespace

at::Tensor rotary_frequencies(const model::ModelConfig& config) {
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < config.head_dim; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(config.head_dim);
    auto frequency = static_cast<float>(1.0 / std::pow(config.rope_theta, exponent));
    if (config.rope_scaling.kind == model::RopeScaling::Kind::linear) {
      frequency = static_cast<float>(frequency / config.rope_scaling.factor);
    } else if (config.rope_scaling.kind == model::RopeScaling::Kind::llama3) {
      frequency = llama3_scaled(frequency, config.rope_scaling);
    }
    frequencies.push_back(frequency);
  }
  return at::tensor(frequencies, at::kFloat);
}

void RotaryAngles::prepare(std::int64_t time, at::Device device) {
  if (cosine_.defined() && cosine_.size(0) == time && cosine_.device() == device) return;
  const torch::autograd::AutoGradMode no_gradient(false);
  const at::Tensor angles = at::outer(at::arange(time, at::kFloat), rotary_frequencies(*config_));
  cosine_ = angles.cos().to(device);
  sine_ = angles.sin().to(device);
}

}  // namespace lowgear::trainer
