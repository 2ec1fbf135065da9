#include "estimating/model/parameters.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>
#include <utility>

#include "estimating/model/family.h"

namespace lowgear::model {
namespace {

using Shape = std::vector<std::int64_t>;

/// Rows of matrices that stand side by side in the files, or in one.
Shape joined_rows(const std::vector<std::string>& names, const Shape& rows) {
  return names.size() > 1 ? rows : Shape{std::accumulate(rows.begin(), rows.end(), std::int64_t{0})};
}

/// Collects the parameters of a part of the model.
class Collector {
 public:
  Collector(const ModelConfig& config, std::vector<ParameterSpec>& specs)
      : config_(&config), names_(&family_of(config).tensors), specs_(&specs) {}

  void add_embedding() {
    begin(Part::embedding);
    add(names_->embedding + ".weight", {config_->vocabulary, embedding_width(*config_)});
    if (config_->token_types > 0) add(names_->token_types + ".weight", {config_->token_types, config_->hidden});
    if (config_->positions == PositionKind::learned) {
      add(names_->positions + ".weight", {config_->max_positions + config_->position_offset, config_->hidden});
    }
    if (config_->embedding_width > 0) add(names_->project_in + ".weight", {config_->hidden, embedding_width(*config_)});
    if (config_->embedding_norm) add_norm(names_->embedding_norm);
    if (config_->positions != PositionKind::relative) return;
    for (const TensorNames* const stack : {names_, &family_of(*config_).decoder_tensors}) {
      add(stack->relative_positions + ".weight", {config_->relative_buckets, config_->heads});
    }
  }

  void add_layer(std::int64_t layer) {
    begin(Part::layer, layer);
    names_ = &layer_names(*config_, layer);
    prefix_ = layer_prefix(*config_, layer);
    add_norm(names_->attention_norm);
    const std::int64_t queries = config_->heads * config_->head_dim;
    const std::int64_t keys = config_->kv_heads * config_->head_dim;
    add_linears(names_->qkv, joined_rows(names_->qkv, {queries, keys, keys}), config_->hidden, config_->qkv_biases);
    if (config_->qk_norms) {
      add(names_->query_norm + ".weight", {config_->head_dim});
      add(names_->key_norm + ".weight", {config_->head_dim});
    }
    add_linears({names_->attention_out}, {config_->hidden}, queries, config_->output_bias);
    if (attends_to_encoder(*config_, layer)) {
      add_norm(names_->cross_norm);
      add_linears({names_->cross_query}, {queries}, config_->hidden, config_->qkv_biases);
      add_linears(names_->cross_keys, {keys, keys}, config_->hidden, config_->qkv_biases);
      add_linears({names_->cross_out}, {config_->hidden}, queries, config_->output_bias);
    }
    add_norm(names_->mlp_norm);
    if (has_experts(*config_, layer)) {
      add_experts();
    } else {
      add_mlp(mlp_inputs(*config_, *names_), names_->mlp_out, config_->intermediate);
    }
    if (!has_encoder_and_decoder(*config_) || layer + 1 != config_->encoder_layers) return;
    prefix_.clear();
    add_norm(names_->final_norm);
  }

  void add_head() {
    begin(Part::head);
    names_ = &family_of(*config_).decoder_tensors;
    if (config_->head_transform) add_linears({names_->head_transform}, {config_->hidden}, config_->hidden, true);
    if (config_->final_norm) add_norm(names_->final_norm);
    if (config_->embedding_width > 0)
      add(names_->project_out + ".weight", {embedding_width(*config_), config_->hidden});
    if (!config_->tied_embeddings) add(names_->output + ".weight", {config_->vocabulary, embedding_width(*config_)});
    if (config_->head_transform) add(names_->output_bias + ".bias", {config_->vocabulary});
  }

 private:
  void begin(Part part, std::int64_t layer = -1) {
    part_ = part;
    layer_ = layer;
    prefix_.clear();
  }
  void add(std::string_view name, Shape shape) {
    specs_->push_back(
        {.name = fmt::format("{}{}", prefix_, name), .shape = std::move(shape), .part = part_, .layer = layer_});
  }
  void add_norm(const std::string& name) {
    add(name + ".weight", {config_->hidden});
    if (config_->norm == NormKind::layer_norm) add(name + ".bias", {config_->hidden});
  }
  void add_linears(const std::vector<std::string>& names, const Shape& rows, std::int64_t inputs, bool bias) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      add(names[i] + ".weight", names_->transposed ? Shape{inputs, rows[i]} : Shape{rows[i], inputs});
      if (bias) add(names[i] + ".bias", {rows[i]});
    }
  }
  void add_mlp(const std::vector<std::string>& in, const std::string& out, std::int64_t width) {
    const Shape rows = config_->mlp == MlpKind::gated ? Shape{width, width} : Shape{width};
    add_linears(in, joined_rows(in, rows), config_->hidden, config_->mlp_biases);
    add_linears({out}, {config_->hidden}, width, config_->mlp_biases);
  }
  void add_experts() {
    const ExpertShape& shape = *config_->experts;
    add(names_->router + ".weight", {shape.experts, config_->hidden});
    const std::string layer = prefix_;
    for (std::int64_t expert = 0; expert < shape.experts; ++expert) {
      prefix_ = layer + expert_prefix(*names_, expert);
      add_mlp(names_->expert_in, names_->expert_out, shape.intermediate);
    }
    prefix_ = layer;
    if (shape.shared_intermediate == 0) return;
    add_mlp(names_->shared_in, names_->shared_out, shape.shared_intermediate);
    add(names_->shared_router + ".weight", {1, config_->hidden});
  }

  const ModelConfig* config_;
  const TensorNames* names_;
  std::vector<ParameterSpec>* specs_;
  Part part_ = Part::layer;
  std::int64_t layer_ = -1;
  std::string prefix_;
};

}  // namespace

std::string layer_prefix(const ModelConfig& config, std::int64_t layer) {
  const std::int64_t first = attends_to_encoder(config, layer) ? config.encoder_layers : 0;
  return fmt::format(fmt::runtime(layer_names(config, layer).layer), layer - first);
}

const std::vector<std::string>& mlp_inputs(const ModelConfig& config, const TensorNames& names) {
  return config.mlp == MlpKind::gated && !names.gated_in.empty() ? names.gated_in : names.mlp_in;
}

std::string expert_prefix(const TensorNames& names, std::int64_t expert) {
  return fmt::format(fmt::runtime(names.expert), expert);
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  std::vector<ParameterSpec> specs;
  Collector collector(config, specs);
  collector.add_embedding();
  for (std::int64_t layer = 0; layer < config.layers; ++layer) collector.add_layer(layer);
  collector.add_head();
  return specs;
}

std::int64_t element_count(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string_view base_prefix(const ModelConfig& config) { return family_of(config).tensors.prefix; }

}  // namespace lowgear::model
