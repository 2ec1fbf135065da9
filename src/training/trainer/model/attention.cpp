#include "training/trainer/model/attention.h"

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "estimating/model/family.h"
#include "training/trainer/model/attention_bias.h"

namespace lowgear::trainer {
namespace {

/// [batch, time, heads * head_dim] to [batch, heads, time, head_dim].
at::Tensor by_head(const at::Tensor& input, std::int64_t head_dim) {
  return input.view({input.size(0), input.size(1), -1, head_dim}).transpose(1, 2);
}

at::Tensor heads_joined(const at::Tensor& input) {
  return input.transpose(1, 2).reshape({input.size(0), input.size(2), -1});
}

LinearLayer::Shape qkv_shape(const model::ModelConfig& config, const std::string& prefix) {
  const model::TensorNames& names = family_of(config).tensors;
  const std::int64_t queries = config.heads * config.head_dim;
  const std::int64_t keys = config.kv_heads * config.head_dim;
  LinearLayer::Shape shape{.pieces = {},
                           .inputs = config.hidden,
                           .split = LinearLayer::Split::columns,
                           .bias = config.qkv_biases,
                           .transposed_in_files = names.transposed,
                           .linear = BlockLinear::attention_in};
  if (names.qkv.size() == 1) {
    const int groups = names.qkv_by_head || config.heads != config.kv_heads ? 1 : 3;
    shape.pieces = {{.name = prefix + names.qkv[0], .rows = queries + 2 * keys, .groups = groups}};
  } else {
    shape.pieces = {{prefix + names.qkv[0], queries}, {prefix + names.qkv[1], keys}, {prefix + names.qkv[2], keys}};
  }
  return shape;
}

/// softmax(scale q k^T + bias) v with some of the weights dropped, composed of libtorch's operations.
template <typename Drop>
at::Tensor composed_attention(const RotatedHeads& heads, const at::Tensor& bias, double scale, const Drop& drop) {
  const std::int64_t group = heads.query.size(1) / heads.key.size(1);
  const at::Tensor keys = group == 1 ? heads.key : heads.key.repeat_interleave(group, 1);
  const at::Tensor values = group == 1 ? heads.value : heads.value.repeat_interleave(group, 1);
  // Scaled before the product, which fp16 may not hold otherwise.
  const at::Tensor scores = at::matmul(heads.query * scale, keys.transpose(2, 3)).to(at::kFloat) + bias;
  return at::matmul(drop(scores.softmax(-1).to(values.scalar_type())), values);
}

std::optional<HeadNorm> head_norm(const BlockContext& context, const std::string& name) {
  if (!context.config->qk_norms) return std::nullopt;
  return HeadNorm(context, name);
}

}  // namespace

HeadNorm::HeadNorm(const BlockContext& context, const std::string& name)
    : group_(context.tensor_group),
      epsilon_(context.config->norm_epsilon),
      weight_(&declare(context, {.name = name + ".weight", .shape = {context.config->head_dim}})) {}

at::Tensor HeadNorm::operator()(const at::Tensor& heads) const {
  return compat::rms_norm(heads, enter_parallel(weight_->value, *group_), epsilon_);
}

Attention::Attention(const BlockContext& context, const std::string& prefix, std::int64_t layer)
    : context_(context),
      group_(context.tensor_group),
      layer_(layer),
      heads_{.heads = context.config->heads / group_->size(),
             .kv_heads = context.config->kv_heads / group_->size(),
             .head_dim = context.config->head_dim,
             .by_head = family_of(*context.config).tensors.qkv_by_head},
      scale_(1.0 / std::sqrt(static_cast<double>(context.config->head_dim))),
      window_(context.config->window > 0 && context.config->windowed[static_cast<std::size_t>(layer)]
                  ? context.config->window
                  : 0),
      rotates_at_once_(context.config->positions == model::PositionKind::rotary &&
                       !context.config->rotary_interleaved && !context.config->qk_norms),
      angles_(*context.config),
      qkv_(context, qkv_shape(*context.config, prefix)),
      query_norm_(head_norm(context, prefix + family_of(*context.config).tensors.query_norm)),
      key_norm_(head_norm(context, prefix + family_of(*context.config).tensors.key_norm)),
      output_(context, by_rows(*context.config, prefix + family_of(*context.config).tensors.attention_out,
                               context.config->heads * context.config->head_dim, context.config->output_bias,
                               BlockLinear::attention_out)) {}

void Attention::bind() {
  qkv_.bind();
  if (query_norm_) query_norm_->bind();
  if (key_norm_) key_norm_->bind();
  output_.bind();
}

at::Tensor Attention::operator()(const at::Tensor& input) {
  const RotatedHeads heads = heads_of(qkv_(enter_parallel(input, *group_)));
  const at::Tensor output = leave_parallel(output_(heads_joined(mixed(heads))), *group_);
  return (*context_.dropout)(with_late_bias(output, output_), context_.config->residual_dropout,
                             {.layer = layer_, .site = DropoutSite::attention_output});
}

RotatedHeads Attention::split(const at::Tensor& joined) const {
  if (heads_.by_head) {
    const at::Tensor grouped = joined.view({joined.size(0), joined.size(1), heads_.heads, 3, heads_.head_dim});
    const auto part = [&grouped](std::int64_t i) { return grouped.select(3, i).transpose(1, 2); };
    return {part(0), part(1), part(2)};
  }
  const std::int64_t keys = heads_.kv_heads * heads_.head_dim;
  const std::vector<at::Tensor> parts = joined.split_with_sizes({heads_.heads * heads_.head_dim, keys, keys}, -1);
  return {by_head(parts[0], heads_.head_dim), by_head(parts[1], heads_.head_dim), by_head(parts[2], heads_.head_dim)};
}

RotatedHeads Attention::heads_of(const at::Tensor& joined) {
  const bool rotary = context_.config->positions == model::PositionKind::rotary;
  if (rotary) angles_.prepare(joined.size(1), joined.device());
  if (rotates_at_once_) return split_and_rotate(joined, angles_.cosine(), angles_.sine(), heads_);
  RotatedHeads heads = split(joined);
  if (query_norm_) heads = {(*query_norm_)(heads.query), (*key_norm_)(heads.key), heads.value};
  if (!rotary) return heads;
  const bool interleaved = context_.config->rotary_interleaved;
  return {turned(heads.query, angles_, interleaved), turned(heads.key, angles_, interleaved), heads.value};
}

bool Attention::is_biased(std::int64_t time) const {
  return context_.config->positions == model::PositionKind::alibi || (window_ > 0 && window_ < time);
}

at::Tensor Attention::mixed(const RotatedHeads& heads) const {
  const Dropout& dropout = *context_.dropout;
  const double share = context_.config->attention_dropout;
  const std::int64_t time = heads.query.size(2);
  if (!dropout.drops(share) && !is_biased(time)) {
    return compat::causal_attention(heads.query, heads.key, heads.value, scale_);
  }
  const at::Tensor& bias = context_.attention_biases->get({.window = window_, .time = time}, heads.query.device());
  return composed_attention(heads, bias, scale_, [&](const at::Tensor& weights) {
    return dropout(
        weights, share,
        {.layer = layer_, .site = DropoutSite::attention, .first = group_->rank() * heads_.heads * time * time});
  });
}

}  // namespace lowgear::trainer
