#include "estimating/model/parameters.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>
#include <utility>

namespace lowgear::model {
namespace {

using Shape = std::vector<std::int64_t>;

/// Collects parameters that share a part, a layer and the beginning of their names.
class Collector {
 public:
  Collector(std::vector<ParameterSpec>& specs, Part part, std::string prefix, std::int64_t layer = -1)
      : specs_(&specs), part_(part), prefix_(std::move(prefix)), layer_(layer) {}

  void add(std::string_view name, Shape shape) {
    specs_->push_back(
        {.name = fmt::format("{}{}", prefix_, name), .shape = std::move(shape), .part = part_, .layer = layer_});
  }
  /// [outputs, inputs].
  void add_linear(std::string_view name, std::int64_t inputs, std::int64_t outputs, bool bias) {
    add(fmt::format("{}.weight", name), {outputs, inputs});
    if (bias) add(fmt::format("{}.bias", name), {outputs});
  }
  /// [inputs, outputs], with a bias.
  void add_conv1d(std::string_view name, std::int64_t inputs, std::int64_t outputs) {
    add(fmt::format("{}.weight", name), {inputs, outputs});
    add(fmt::format("{}.bias", name), {outputs});
  }
  void add_layer_norm(std::string_view name, std::int64_t width) {
    add(fmt::format("{}.weight", name), {width});
    add(fmt::format("{}.bias", name), {width});
  }

 private:
  std::vector<ParameterSpec>* specs_;
  Part part_;
  std::string prefix_;
  std::int64_t layer_;
};

void add_llama_layer(std::vector<ParameterSpec>& specs, const ModelConfig& config, std::int64_t layer) {
  Collector in(specs, Part::layer, fmt::format("model.layers.{}.", layer), layer);
  const std::int64_t query_width = config.heads * config.head_dim;
  const std::int64_t key_width = config.kv_heads * config.head_dim;
  in.add("input_layernorm.weight", {config.hidden});
  in.add_linear("self_attn.q_proj", config.hidden, query_width, config.qkv_biases);
  in.add_linear("self_attn.k_proj", config.hidden, key_width, config.qkv_biases);
  in.add_linear("self_attn.v_proj", config.hidden, key_width, config.qkv_biases);
  in.add_linear("self_attn.o_proj", query_width, config.hidden, config.output_bias);
  in.add("post_attention_layernorm.weight", {config.hidden});
  in.add_linear("mlp.gate_proj", config.hidden, config.intermediate, config.mlp_biases);
  in.add_linear("mlp.up_proj", config.hidden, config.intermediate, config.mlp_biases);
  in.add_linear("mlp.down_proj", config.intermediate, config.hidden, config.mlp_biases);
}

void add_gpt2_layer(std::vector<ParameterSpec>& specs, const ModelConfig& config, std::int64_t layer) {
  Collector in(specs, Part::layer, fmt::format("transformer.h.{}.", layer), layer);
  in.add_layer_norm("ln_1", config.hidden);
  in.add_conv1d("attn.c_attn", config.hidden, 3 * config.hidden);
  in.add_conv1d("attn.c_proj", config.hidden, config.hidden);
  in.add_layer_norm("ln_2", config.hidden);
  in.add_conv1d("mlp.c_fc", config.hidden, config.intermediate);
  in.add_conv1d("mlp.c_proj", config.intermediate, config.hidden);
}

void add_llama(std::vector<ParameterSpec>& specs, const ModelConfig& config) {
  Collector(specs, Part::embedding, "model.").add("embed_tokens.weight", {config.vocabulary, config.hidden});
  for (std::int64_t layer = 0; layer < config.layers; ++layer) add_llama_layer(specs, config, layer);
  Collector(specs, Part::head, "model.").add("norm.weight", {config.hidden});
}

void add_gpt2(std::vector<ParameterSpec>& specs, const ModelConfig& config) {
  Collector embedding(specs, Part::embedding, "transformer.");
  embedding.add("wte.weight", {config.vocabulary, config.hidden});
  embedding.add("wpe.weight", {config.max_positions, config.hidden});
  for (std::int64_t layer = 0; layer < config.layers; ++layer) add_gpt2_layer(specs, config, layer);
  Collector(specs, Part::head, "transformer.").add_layer_norm("ln_f", config.hidden);
}

}  // namespace

std::vector<ParameterSpec> parameters(const ModelConfig& config) {
  std::vector<ParameterSpec> specs;
  if (trained_type(config) == "gpt2") {
    add_gpt2(specs, config);
  } else {
    add_llama(specs, config);
  }
  if (!config.tied_embeddings) {
    Collector(specs, Part::head, "").add("lm_head.weight", {config.vocabulary, config.hidden});
  }
  return specs;
}

std::int64_t element_count(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string_view base_prefix(const ModelConfig& config) {
  return trained_type(config) == "gpt2" ? "transformer." : "model.";
}

}  // namespace lowgear::model
