#include "estimating/estimator/job/transformer_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/suggestion.h"

namespace lowgear::estimator {
namespace {

/// A config.json has some fifty members; id2label and the like may have as many more.
constexpr std::size_t kMaxValues = std::size_t{1} << 16;

class JsonMembers final : public ConfigMembers {
 public:
  explicit JsonMembers(JsonView object) : object_(std::move(object)) {}

  [[nodiscard]] bool has(std::string_view key) const override {
    return object_.has(key) && !object_.at(key).json().is_null();
  }
  [[nodiscard]] std::int64_t integer(std::string_view key) const override { return object_.at(key).integer(); }
  [[nodiscard]] std::string text(std::string_view key) const override { return object_.at(key).text(); }
  [[nodiscard]] bool boolean(std::string_view key) const override { return object_.at(key).boolean(); }
  [[noreturn]] void fail(std::string_view key, std::string_view what, std::string_view fix) const override {
    object_.at(key).fail(what, fix);
  }

 private:
  JsonView object_;
};

/// Reads sizes within their bounds.
class ConfigSizes {
 public:
  explicit ConfigSizes(const ConfigMembers& members) : members_(&members) {}

  [[nodiscard]] std::int64_t at(std::string_view key, std::int64_t highest = model::kMaxModelWidth,
                                std::int64_t lowest = 1) const {
    const std::int64_t value = members_->integer(key);
    if (value < lowest || value > highest) {
      members_->fail(key, fmt::format("{} is not from {} to {}", value, lowest, highest));
    }
    return value;
  }
  [[nodiscard]] std::int64_t at_or(std::string_view key, std::int64_t fallback) const {
    return members_->has(key) ? at(key) : fallback;
  }
  /// Of two names, the one that is there; the first where neither is.
  [[nodiscard]] std::int64_t at_either(std::string_view key, std::string_view other) const {
    return at(members_->has(other) && !members_->has(key) ? other : key);
  }
  [[nodiscard]] bool flag(std::string_view key, bool fallback) const {
    return members_->has(key) ? members_->boolean(key) : fallback;
  }

 private:
  const ConfigMembers* members_;
};

std::int64_t derived_head_dim(const ConfigMembers& members, std::string_view heads_key, const TransformerShape& shape) {
  if (shape.hidden % shape.heads != 0) {
    members.fail(heads_key, fmt::format("{} heads do not divide the width of {}", shape.heads, shape.hidden),
                 "give a divisor, or head_dim where the model type has it");
  }
  return shape.hidden / shape.heads;
}

/// What Llama and those after it have in common.
TransformerShape read_llama(const ConfigMembers& members, std::optional<std::int64_t> default_kv_heads = {}) {
  const ConfigSizes sizes(members);
  TransformerShape shape;
  shape.vocabulary = sizes.at("vocab_size", model::kMaxVocabulary);
  shape.hidden = sizes.at("hidden_size");
  shape.layers = sizes.at("num_hidden_layers", model::kMaxModelLayers);
  shape.heads = sizes.at("num_attention_heads");
  shape.kv_heads = sizes.at_or("num_key_value_heads", default_kv_heads.value_or(shape.heads));
  if (shape.heads % shape.kv_heads != 0) {
    members.fail(members.has("num_key_value_heads") ? "num_key_value_heads" : "num_attention_heads",
                 fmt::format("{} heads of keys do not divide {} heads", shape.kv_heads, shape.heads));
  }
  shape.head_dim =
      members.has("head_dim") ? sizes.at("head_dim") : derived_head_dim(members, "num_attention_heads", shape);
  shape.intermediate = sizes.at("intermediate_size");
  shape.max_positions = sizes.at("max_position_embeddings", model::kMaxPositions);
  shape.tied_embeddings = sizes.flag("tie_word_embeddings", false);
  const bool attention_bias = sizes.flag("attention_bias", false);
  shape.biases = attention_bias && sizes.flag("mlp_bias", false);
  shape.qkv_biases = attention_bias && !shape.biases;
  return shape;
}

TransformerShape read_mistral(const ConfigMembers& members) { return read_llama(members, 8); }

std::int64_t read_experts_per_token(const ConfigMembers& members, std::int64_t experts) {
  return ConfigSizes(members).at("num_experts_per_tok", experts);
}

TransformerShape read_mixtral(const ConfigMembers& members) {
  TransformerShape shape = read_llama(members, 8);
  const std::int64_t experts = ConfigSizes(members).at("num_local_experts", kMaxExperts);
  shape.experts = ExpertShape{experts, read_experts_per_token(members, experts), shape.intermediate, 0};
  return shape;
}

TransformerShape read_qwen2(const ConfigMembers& members) {
  TransformerShape shape = read_llama(members);
  shape.qkv_biases = true;
  return shape;
}

TransformerShape read_qwen3(const ConfigMembers& members) {
  TransformerShape shape = read_llama(members);
  if (!members.has("head_dim")) shape.head_dim = 128;
  shape.qk_norms = true;
  return shape;
}

TransformerShape with_qwen_experts(const ConfigMembers& members, TransformerShape shape) {
  const ConfigSizes sizes(members);
  if (members.has("decoder_sparse_step") && members.integer("decoder_sparse_step") != 1) {
    members.fail("decoder_sparse_step", "layers without experts among those with them are not supported");
  }
  const std::int64_t experts = sizes.at("num_experts", kMaxExperts);
  shape.experts = ExpertShape{experts, read_experts_per_token(members, experts), sizes.at("moe_intermediate_size"),
                              sizes.at_or("shared_expert_intermediate_size", 0)};
  return shape;
}

TransformerShape read_qwen2_moe(const ConfigMembers& members) {
  return with_qwen_experts(members, read_qwen2(members));
}

TransformerShape read_qwen3_moe(const ConfigMembers& members) {
  return with_qwen_experts(members, read_qwen3(members));
}

/// What GPT and those after it have in common: vocabulary, and width, layers and heads by their names in the family.
TransformerShape read_gpt_sizes(const ConfigMembers& members, const char* hidden, const char* layers,
                                const char* heads) {
  const ConfigSizes sizes(members);
  TransformerShape shape = gpt_shape({});
  shape.vocabulary = sizes.at("vocab_size", model::kMaxVocabulary);
  shape.hidden = sizes.at(hidden);
  shape.layers = sizes.at(layers, model::kMaxModelLayers);
  shape.heads = sizes.at(heads);
  shape.kv_heads = shape.heads;
  shape.head_dim = derived_head_dim(members, heads, shape);
  return shape;
}

TransformerShape read_gpt2(const ConfigMembers& members) {
  const ConfigSizes sizes(members);
  TransformerShape shape = read_gpt_sizes(members, "n_embd", "n_layer", "n_head");
  shape.intermediate = sizes.at_or("n_inner", 4 * shape.hidden);
  shape.max_positions = sizes.at("n_positions", model::kMaxPositions);
  shape.tied_embeddings = sizes.flag("tie_word_embeddings", true);
  return shape;
}

TransformerShape read_gpt_neox(const ConfigMembers& members) {
  const ConfigSizes sizes(members);
  TransformerShape shape = read_gpt_sizes(members, "hidden_size", "num_hidden_layers", "num_attention_heads");
  shape.intermediate = sizes.at("intermediate_size");
  shape.max_positions = sizes.at("max_position_embeddings", model::kMaxPositions);
  shape.positions = PositionKind::rotary;
  shape.tied_embeddings = sizes.flag("tie_word_embeddings", false);
  shape.parallel_residual = sizes.flag("use_parallel_residual", true);
  return shape;
}

TransformerShape read_bloom(const ConfigMembers& members) {
  const ConfigSizes sizes(members);
  TransformerShape shape = gpt_shape({});
  shape.vocabulary = sizes.at("vocab_size", model::kMaxVocabulary);
  shape.hidden = sizes.at_either("hidden_size", "n_embed");
  shape.layers = sizes.at_either("n_layer", "num_hidden_layers");
  shape.heads = sizes.at_either("n_head", "num_attention_heads");
  shape.kv_heads = shape.heads;
  shape.head_dim = derived_head_dim(members, members.has("n_head") ? "n_head" : "num_attention_heads", shape);
  shape.intermediate = 4 * shape.hidden;
  shape.max_positions = sizes.at_or("seq_length", 2048);
  shape.positions = PositionKind::alibi;
  shape.tied_embeddings = sizes.flag("tie_word_embeddings", true);
  shape.embedding_norm = true;
  return shape;
}

struct Family {
  std::string_view model_type;
  TransformerShape (*read)(const ConfigMembers&);
};

constexpr auto kFamilies = std::to_array<Family>({
    {"llama", [](const ConfigMembers& members) { return read_llama(members); }},
    {"mistral", read_mistral},
    {"mixtral", read_mixtral},
    {"qwen2", read_qwen2},
    {"qwen2_moe", read_qwen2_moe},
    {"qwen3", read_qwen3},
    {"qwen3_moe", read_qwen3_moe},
    {"gpt2", read_gpt2},
    {"gpt_neox", read_gpt_neox},
    {"bloom", read_bloom},
});

}  // namespace

TransformerShape read_transformer_shape(const ConfigMembers& members, std::string name) {
  constexpr std::string_view kType = "model_type";
  const std::string type = members.text(kType);
  const auto* const family = std::ranges::find(kFamilies, type, &Family::model_type);
  if (family == kFamilies.end()) {
    std::array<std::string_view, kFamilies.size()> types;
    std::ranges::transform(kFamilies, types.begin(), &Family::model_type);
    const auto meant = nearest_name(type, types);
    members.fail(kType, fmt::format("{} is not supported", quote(type)),
                 meant ? fmt::format("did you mean {}?", *meant) : fmt::format("there are {}", fmt::join(types, ", ")));
  }
  TransformerShape shape = family->read(members);
  shape.name = std::move(name);
  require_valid(shape);
  return shape;
}

TransformerShape parse_transformer_shape(std::string_view json, const std::string& source) {
  const Json document = parse_json(json, source, kMaxValues);
  return read_transformer_shape(JsonMembers(JsonView(document, source)), source);
}

}  // namespace lowgear::estimator
