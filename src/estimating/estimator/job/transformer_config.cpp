#include "estimating/estimator/job/transformer_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "estimating/model/config_members.h"

namespace lowgear::estimator {
namespace {

/// A config.json has some fifty members; id2label and the like may have as many more.
constexpr std::size_t kMaxValues = std::size_t{1} << 16;

std::string written_scalar(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class JsonMembers final : public ConfigMembers {
 public:
  explicit JsonMembers(JsonView object) : object_(std::move(object)) {}

  [[nodiscard]] std::vector<std::string> keys() const override {
    std::vector<std::string> keys;
    for (const auto& member : object_.json().items()) keys.push_back(member.key());
    return keys;
  }
  [[nodiscard]] bool has(std::string_view key) const override {
    return object_.has(key) && !object_.at(key).json().is_null();
  }
  [[nodiscard]] std::int64_t integer(std::string_view key) const override { return object_.at(key).integer(); }
  [[nodiscard]] std::string text(std::string_view key) const override { return object_.at(key).text(); }
  [[nodiscard]] bool boolean(std::string_view key) const override { return object_.at(key).boolean(); }
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const override {
    const JsonView list = object_.at(key);
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < list.size(); ++i) texts.push_back(list.at(i).text());
    return texts;
  }
  [[nodiscard]] std::string written(std::string_view key) const override {
    const Json& value = object_.at(key).json();
    if (!value.is_structured() || value.empty()) return written_scalar(value);
    const bool one = value.is_array() && value.size() == 1 && !value[0].is_structured();
    return one ? written_scalar(value[0]) : "...";
  }
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
  /// Of two names of one thing, the one that is there; the first where neither is.
  [[nodiscard]] std::int64_t at_either(std::string_view key, std::string_view other,
                                       std::int64_t highest = model::kMaxModelWidth) const {
    if (!members_->has(other)) return at(key, highest);
    if (members_->has(key) && at(key, highest) != at(other, highest)) {
      members_->fail(other, fmt::format("contradicts {}, another name of it", key), "remove one of them");
    }
    return at(other, highest);
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

/// Whether the member is there, be it as null, which is not always what a missing one means.
bool says(const ConfigMembers& members, std::string_view key) {
  const std::vector<std::string> keys = members.keys();
  return std::ranges::find(keys, key) != keys.end();
}

/// What Llama and those after it have in common. A missing number of heads of keys means that of the family; null, all.
TransformerShape read_gated(const ConfigMembers& members, std::optional<std::int64_t> family_kv_heads) {
  constexpr std::string_view kKeyHeads = "num_key_value_heads";
  const ConfigSizes sizes(members);
  TransformerShape shape;
  shape.vocabulary = sizes.at("vocab_size", model::kMaxVocabulary);
  shape.hidden = sizes.at("hidden_size");
  shape.layers = sizes.at("num_hidden_layers", model::kMaxModelLayers);
  shape.heads = sizes.at("num_attention_heads");
  shape.kv_heads =
      says(members, kKeyHeads) ? sizes.at_or(kKeyHeads, shape.heads) : family_kv_heads.value_or(shape.heads);
  if (shape.heads % shape.kv_heads != 0) {
    members.fail(members.has(kKeyHeads) ? kKeyHeads : "num_attention_heads",
                 fmt::format("{} heads of keys do not divide {} heads", shape.kv_heads, shape.heads));
  }
  shape.head_dim =
      members.has("head_dim") ? sizes.at("head_dim") : derived_head_dim(members, "num_attention_heads", shape);
  shape.intermediate = sizes.at("intermediate_size");
  shape.max_positions = sizes.at("max_position_embeddings", model::kMaxPositions);
  shape.tied_embeddings = sizes.flag("tie_word_embeddings", false);
  return shape;
}

void read_attention_bias(const ConfigMembers& members, bool otherwise, TransformerShape& shape) {
  shape.qkv_biases = ConfigSizes(members).flag("attention_bias", otherwise);
  shape.output_bias = shape.qkv_biases;
}

/// Takes the window for the layers that `layer_types` says, else for those that the family does.
template <typename IsWindowed>
void read_window(const ConfigMembers& members, std::int64_t window, const IsWindowed& is_windowed,
                 TransformerShape& shape) {
  constexpr std::string_view kTypes = "layer_types";
  std::vector<bool> windowed;
  if (members.has(kTypes)) {
    for (const std::string& type : members.texts(kTypes)) {
      if (type != "sliding_attention" && type != "full_attention") {
        members.fail(kTypes,
                     fmt::format("{} is not supported, only full_attention and sliding_attention", quote(type)));
      }
      windowed.push_back(type == "sliding_attention");
    }
    if (windowed.size() != static_cast<std::size_t>(shape.layers)) {
      members.fail(kTypes, fmt::format("has {} elements for {} layers", windowed.size(), shape.layers));
    }
  } else {
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) windowed.push_back(window > 0 && is_windowed(layer));
  }
  if (std::ranges::find(windowed, true) == windowed.end()) return;
  if (window == 0) members.fail(kTypes, "layers of sliding_attention need a sliding_window, and there is none");
  shape.window = window;
  shape.windowed = std::move(windowed);
}

/// 0 where the member is null.
std::int64_t window_or(const ConfigMembers& members, std::int64_t missing) {
  constexpr std::string_view kWindow = "sliding_window";
  if (members.has(kWindow)) return ConfigSizes(members).at(kWindow, model::kMaxPositions);
  return says(members, kWindow) ? 0 : missing;
}

/// Windows of a family whose layers all have them, whatever the members say that choose layers in other families.
void read_whole_window(const ConfigMembers& members, std::int64_t missing, TransformerShape& shape) {
  shape.window = window_or(members, missing);
  if (shape.window > 0) shape.windowed.assign(static_cast<std::size_t>(shape.layers), true);
}

/// Where it is not said.
constexpr std::int64_t kQwenWindow = 4096;

bool uses_window(const ConfigMembers& members) { return ConfigSizes(members).flag("use_sliding_window", false); }

/// Qwen's windows, which are to be switched on. transformers has each family's rule for the layers that have them:
/// `is_windowed` takes the layer and max_window_layers.
template <typename IsWindowed>
void read_qwen_window(const ConfigMembers& members, const IsWindowed& is_windowed, TransformerShape& shape) {
  constexpr std::string_view kLimit = "max_window_layers";
  constexpr std::int64_t kMissing = 28;
  const std::int64_t limit =
      members.has(kLimit) ? ConfigSizes(members).at(kLimit, model::kMaxModelLayers, 0) : kMissing;
  read_window(
      members, uses_window(members) ? window_or(members, kQwenWindow) : 0,
      [&](std::int64_t layer) { return is_windowed(layer, limit); }, shape);
}

bool is_above(std::int64_t layer, std::int64_t limit) { return layer >= limit; }

TransformerShape read_llama(const ConfigMembers& members) {
  TransformerShape shape = read_gated(members, {});
  read_attention_bias(members, false, shape);
  shape.mlp_biases = ConfigSizes(members).flag("mlp_bias", false);
  return shape;
}

TransformerShape read_mistral(const ConfigMembers& members) {
  TransformerShape shape = read_gated(members, 8);
  read_whole_window(members, 4096, shape);
  return shape;
}

std::int64_t read_experts_per_token(const ConfigMembers& members, std::int64_t experts) {
  return ConfigSizes(members).at("num_experts_per_tok", experts);
}

TransformerShape read_mixtral(const ConfigMembers& members) {
  TransformerShape shape = read_gated(members, 8);
  const std::int64_t experts = ConfigSizes(members).at_either("num_local_experts", "num_experts", kMaxExperts);
  shape.experts = ExpertShape{experts, read_experts_per_token(members, experts), shape.intermediate, 0};
  read_whole_window(members, 0, shape);
  return shape;
}

TransformerShape read_qwen2(const ConfigMembers& members) {
  TransformerShape shape = read_gated(members, 32);
  shape.qkv_biases = true;
  read_qwen_window(members, is_above, shape);
  return shape;
}

TransformerShape read_qwen3(const ConfigMembers& members) {
  TransformerShape shape = read_gated(members, 32);
  if (!members.has("head_dim")) shape.head_dim = 128;
  shape.qk_norms = true;
  read_attention_bias(members, false, shape);
  read_qwen_window(members, is_above, shape);
  return shape;
}

ExpertShape read_qwen_experts(const ConfigMembers& members, std::int64_t experts, std::int64_t shared) {
  return {experts, read_experts_per_token(members, experts), ConfigSizes(members).at("moe_intermediate_size"), shared};
}

TransformerShape read_qwen2_moe(const ConfigMembers& members) {
  const ConfigSizes sizes(members);
  TransformerShape shape = read_gated(members, 16);
  shape.qkv_biases = sizes.flag("qkv_bias", true);
  shape.experts = read_qwen_experts(members, sizes.at("num_experts", kMaxExperts),
                                    sizes.at("shared_expert_intermediate_size", model::kMaxModelWidth, 0));
  const auto every_other = [](std::int64_t layer, std::int64_t limit) { return layer % 2 == 0 && layer < limit; };
  read_qwen_window(members, every_other, shape);
  return shape;
}

TransformerShape read_qwen3_moe(const ConfigMembers& members) {
  TransformerShape shape = read_gated(members, 4);
  shape.qk_norms = true;
  read_attention_bias(members, false, shape);
  shape.experts =
      read_qwen_experts(members, ConfigSizes(members).at_either("num_experts", "num_local_experts", kMaxExperts), 0);
  if (uses_window(members)) read_whole_window(members, kQwenWindow, shape);
  return shape;
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
  read_attention_bias(members, true, shape);
  return shape;
}

TransformerShape read_bloom(const ConfigMembers& members) {
  const ConfigSizes sizes(members);
  TransformerShape shape = gpt_shape({});
  shape.vocabulary = sizes.at("vocab_size", model::kMaxVocabulary);
  shape.hidden = sizes.at_either("hidden_size", "n_embed");
  shape.layers = sizes.at_either("n_layer", "num_hidden_layers", model::kMaxModelLayers);
  shape.heads = sizes.at_either("n_head", "num_attention_heads");
  shape.kv_heads = shape.heads;
  shape.head_dim = derived_head_dim(members, members.has("n_head") ? "n_head" : "num_attention_heads", shape);
  shape.intermediate = 4 * shape.hidden;
  if (sizes.at_or("n_inner", shape.intermediate) != shape.intermediate) {
    members.fail("n_inner", "the MLP of BLOOM has four times the width of the model, whatever is written here",
                 "remove it");
  }
  shape.max_positions = sizes.at_or("seq_length", 2048);
  shape.positions = PositionKind::alibi;
  shape.tied_embeddings = sizes.flag("tie_word_embeddings", true);
  shape.embedding_norm = true;
  return shape;
}

using ReadShape = TransformerShape (*)(const ConfigMembers&);
struct FamilyReader {
  std::string_view model_type;
  ReadShape read;
};

constexpr auto kReaders = std::to_array<FamilyReader>({
    {"llama", read_llama},
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
  const auto has = [&members](std::string_view key) { return members.has(key); };
  if (const std::string_view part = model::language_part(has); !part.empty() && !members.has(kType)) {
    members.fail(part, model::kOfLanguagePart, model::kFixOfLanguagePart);
  }
  const std::string type = members.text(kType);
  const auto* const reader = std::ranges::find(kReaders, type, &FamilyReader::model_type);
  const auto families = transformer_families();
  const auto family = std::ranges::find(families, type, &TransformerFamily::model_type);
  if (reader == kReaders.end() || family == families.end()) {
    std::vector<std::string_view> types;
    for (const TransformerFamily& known : families) types.push_back(known.model_type);
    members.fail(kType, fmt::format("{} is not supported", quote(type)),
                 model::fix_of_model_type(has, fmt::format("{}", fmt::join(types, ", "))));
  }
  TransformerShape shape = reader->read(members);
  for (const std::string& note : check_members(members, *family, shape.window > 0))
    shape.notes.push_back(fmt::format("{}: {}", name, note));
  shape.name = std::move(name);
  require_valid(shape);
  return shape;
}

TransformerShape parse_transformer_shape(std::string_view json, const std::string& source) {
  const Json document = parse_json(json, source, kMaxValues);
  return read_transformer_shape(JsonMembers(JsonView(document, source)), source);
}

}  // namespace lowgear::estimator
