#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "estimating/model/config_json.h"

namespace lowgear::model {
namespace {

/// Reads sizes within their bounds.
class ConfigSizes {
 public:
  explicit ConfigSizes(const ConfigMembers& members) : members_(&members) {}

  [[nodiscard]] std::int64_t at(std::string_view key, std::int64_t highest = kMaxModelWidth,
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
                                       std::int64_t highest = kMaxModelWidth) const {
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

std::int64_t derived_head_dim(const ConfigMembers& members, std::string_view heads_key, const ModelConfig& config) {
  if (config.hidden % config.heads != 0) {
    members.fail(heads_key, fmt::format("{} heads do not divide the width of {}", config.heads, config.hidden),
                 "give a divisor, or head_dim where the model type has it");
  }
  return config.hidden / config.heads;
}

/// Whether the member is there, be it as null, which is not always what a missing one means.
bool says(const ConfigMembers& members, std::string_view key) {
  const std::vector<std::string> keys = members.keys();
  return std::ranges::find(keys, key) != keys.end();
}

/// What Llama and those after it have in common. A missing number of heads of keys means that of the family; null, all.
ModelConfig read_gated(const ConfigMembers& members, std::optional<std::int64_t> family_kv_heads) {
  constexpr std::string_view kKeyHeads = "num_key_value_heads";
  const ConfigSizes sizes(members);
  ModelConfig config;
  config.vocabulary = sizes.at("vocab_size", kMaxVocabulary);
  config.hidden = sizes.at("hidden_size");
  config.layers = sizes.at("num_hidden_layers", kMaxModelLayers);
  config.heads = sizes.at("num_attention_heads");
  config.kv_heads =
      says(members, kKeyHeads) ? sizes.at_or(kKeyHeads, config.heads) : family_kv_heads.value_or(config.heads);
  config.head_dim =
      members.has("head_dim") ? sizes.at("head_dim") : derived_head_dim(members, "num_attention_heads", config);
  config.intermediate = sizes.at("intermediate_size");
  config.max_positions = sizes.at("max_position_embeddings", kMaxPositions);
  config.tied_embeddings = sizes.flag("tie_word_embeddings", false);
  return config;
}

void read_attention_bias(const ConfigMembers& members, bool otherwise, ModelConfig& config) {
  config.qkv_biases = ConfigSizes(members).flag("attention_bias", otherwise);
  config.output_bias = config.qkv_biases;
}

/// Takes the window for the layers that `layer_types` says, else for those that the family does.
template <typename IsWindowed>
void read_window(const ConfigMembers& members, std::int64_t window, const IsWindowed& is_windowed,
                 ModelConfig& config) {
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
    if (windowed.size() != static_cast<std::size_t>(config.layers)) {
      members.fail(kTypes, fmt::format("has {} elements for {} layers", windowed.size(), config.layers));
    }
  } else {
    for (std::int64_t layer = 0; layer < config.layers; ++layer) windowed.push_back(window > 0 && is_windowed(layer));
  }
  if (std::ranges::find(windowed, true) == windowed.end()) return;
  if (window == 0) members.fail(kTypes, "layers of sliding_attention need a sliding_window, and there is none");
  config.window = window;
  config.windowed = std::move(windowed);
}

/// 0 where the member is null.
std::int64_t window_or(const ConfigMembers& members, std::int64_t missing) {
  constexpr std::string_view kWindow = "sliding_window";
  if (members.has(kWindow)) return ConfigSizes(members).at(kWindow, kMaxPositions);
  return says(members, kWindow) ? 0 : missing;
}

/// Windows of a family whose layers all have them, whatever the members say that choose layers in other families.
void read_whole_window(const ConfigMembers& members, std::int64_t missing, ModelConfig& config) {
  config.window = window_or(members, missing);
  if (config.window > 0) config.windowed.assign(static_cast<std::size_t>(config.layers), true);
}

/// Where it is not said.
constexpr std::int64_t kQwenWindow = 4096;

bool uses_window(const ConfigMembers& members) { return ConfigSizes(members).flag("use_sliding_window", false); }

/// Qwen's windows, which are to be switched on. transformers has each family's rule for the layers that have them:
/// `is_windowed` takes the layer and max_window_layers.
template <typename IsWindowed>
void read_qwen_window(const ConfigMembers& members, const IsWindowed& is_windowed, ModelConfig& config) {
  constexpr std::string_view kLimit = "max_window_layers";
  constexpr std::int64_t kMissing = 28;
  const std::int64_t limit = members.has(kLimit) ? ConfigSizes(members).at(kLimit, kMaxModelLayers, 0) : kMissing;
  read_window(
      members, uses_window(members) ? window_or(members, kQwenWindow) : 0,
      [&](std::int64_t layer) { return is_windowed(layer, limit); }, config);
}

bool is_above(std::int64_t layer, std::int64_t limit) { return layer >= limit; }

ModelConfig read_llama(const ConfigMembers& members) {
  ModelConfig config = read_gated(members, {});
  read_attention_bias(members, false, config);
  config.mlp_biases = ConfigSizes(members).flag("mlp_bias", false);
  return config;
}

ModelConfig read_mistral(const ConfigMembers& members) {
  ModelConfig config = read_gated(members, 8);
  read_whole_window(members, 4096, config);
  return config;
}

std::int64_t read_experts_per_token(const ConfigMembers& members, std::int64_t experts) {
  return ConfigSizes(members).at("num_experts_per_tok", experts);
}

ModelConfig read_mixtral(const ConfigMembers& members) {
  ModelConfig config = read_gated(members, 8);
  const std::int64_t experts = ConfigSizes(members).at_either("num_local_experts", "num_experts", kMaxExperts);
  config.experts = ExpertShape{experts, read_experts_per_token(members, experts), config.intermediate, 0};
  read_whole_window(members, 0, config);
  return config;
}

ModelConfig read_qwen2(const ConfigMembers& members) {
  ModelConfig config = read_gated(members, 32);
  config.qkv_biases = true;
  read_qwen_window(members, is_above, config);
  return config;
}

ModelConfig read_qwen3(const ConfigMembers& members) {
  ModelConfig config = read_gated(members, 32);
  if (!members.has("head_dim")) config.head_dim = 128;
  config.qk_norms = true;
  read_attention_bias(members, false, config);
  read_qwen_window(members, is_above, config);
  return config;
}

ExpertShape read_qwen_experts(const ConfigMembers& members, std::int64_t experts, std::int64_t shared) {
  return {experts, read_experts_per_token(members, experts), ConfigSizes(members).at("moe_intermediate_size"), shared};
}

ModelConfig read_qwen2_moe(const ConfigMembers& members) {
  const ConfigSizes sizes(members);
  ModelConfig config = read_gated(members, 16);
  config.qkv_biases = sizes.flag("qkv_bias", true);
  config.experts = read_qwen_experts(members, sizes.at("num_experts", kMaxExperts),
                                     sizes.at("shared_expert_intermediate_size", kMaxModelWidth, 0));
  const auto every_other = [](std::int64_t layer, std::int64_t limit) { return layer % 2 == 0 && layer < limit; };
  read_qwen_window(members, every_other, config);
  return config;
}

ModelConfig read_qwen3_moe(const ConfigMembers& members) {
  ModelConfig config = read_gated(members, 4);
  config.qk_norms = true;
  read_attention_bias(members, false, config);
  config.experts =
      read_qwen_experts(members, ConfigSizes(members).at_either("num_experts", "num_local_experts", kMaxExperts), 0);
  if (uses_window(members)) read_whole_window(members, kQwenWindow, config);
  return config;
}

/// Llama's layers. Files have queries, keys and values as one matrix, gate and up as another: the sizes are the same.
ModelConfig read_phi3(const ConfigMembers& members) {
  ModelConfig config = read_gated(members, {});
  read_whole_window(members, 0, config);
  return config;
}

/// What GPT and those after it have in common: vocabulary, and width, layers and heads by their names in the family.
ModelConfig read_gpt_sizes(const ConfigMembers& members, const char* hidden, const char* layers, const char* heads) {
  const ConfigSizes sizes(members);
  ModelConfig config = gpt_model(0, 0, 1, 0, 0);
  config.vocabulary = sizes.at("vocab_size", kMaxVocabulary);
  config.hidden = sizes.at(hidden);
  config.layers = sizes.at(layers, kMaxModelLayers);
  config.heads = sizes.at(heads);
  config.kv_heads = config.heads;
  config.head_dim = derived_head_dim(members, heads, config);
  return config;
}

ModelConfig read_gpt2(const ConfigMembers& members) {
  const ConfigSizes sizes(members);
  ModelConfig config = read_gpt_sizes(members, "n_embd", "n_layer", "n_head");
  config.intermediate = sizes.at_or("n_inner", 4 * config.hidden);
  config.max_positions = sizes.at("n_positions", kMaxPositions);
  config.tied_embeddings = sizes.flag("tie_word_embeddings", true);
  return config;
}

ModelConfig read_gpt_neox(const ConfigMembers& members) {
  const ConfigSizes sizes(members);
  ModelConfig config = read_gpt_sizes(members, "hidden_size", "num_hidden_layers", "num_attention_heads");
  config.intermediate = sizes.at("intermediate_size");
  config.max_positions = sizes.at("max_position_embeddings", kMaxPositions);
  config.positions = PositionKind::rotary;
  config.tied_embeddings = sizes.flag("tie_word_embeddings", false);
  config.parallel_residual = sizes.flag("use_parallel_residual", true);
  read_attention_bias(members, true, config);
  return config;
}

ModelConfig read_bloom(const ConfigMembers& members) {
  const ConfigSizes sizes(members);
  ModelConfig config = gpt_model(0, 0, 1, 0, 0);
  config.vocabulary = sizes.at("vocab_size", kMaxVocabulary);
  config.hidden = sizes.at_either("hidden_size", "n_embed");
  config.layers = sizes.at_either("n_layer", "num_hidden_layers", kMaxModelLayers);
  config.heads = sizes.at_either("n_head", "num_attention_heads");
  config.kv_heads = config.heads;
  config.head_dim = derived_head_dim(members, members.has("n_head") ? "n_head" : "num_attention_heads", config);
  config.intermediate = 4 * config.hidden;
  if (sizes.at_or("n_inner", config.intermediate) != config.intermediate) {
    members.fail("n_inner", "the MLP of BLOOM has four times the width of the model, whatever is written here",
                 "remove it");
  }
  config.max_positions = sizes.at_or("seq_length", 2048);
  config.positions = PositionKind::alibi;
  config.tied_embeddings = sizes.flag("tie_word_embeddings", true);
  config.embedding_norm = true;
  return config;
}

struct FamilyReader {
  std::string_view model_type;
  ModelConfig (*read)(const ConfigMembers&);
};

constexpr auto kReaders = std::to_array<FamilyReader>({
    {"llama", read_llama},
    {"mistral", read_mistral},
    {"mixtral", read_mixtral},
    {"qwen2", read_qwen2},
    {"qwen2_moe", read_qwen2_moe},
    {"qwen3", read_qwen3},
    {"qwen3_moe", read_qwen3_moe},
    {"phi3", read_phi3},
    {"gpt2", read_gpt2},
    {"gpt_neox", read_gpt_neox},
    {"bloom", read_bloom},
});

/// The member that describes the language model, of a model with several parts; empty for others.
std::string_view language_part(const ConfigMembers& members) {
  constexpr auto kParts = std::to_array<std::string_view>({"text_config", "llm_config", "language_config"});
  const auto* const found = std::ranges::find_if(kParts, [&members](auto key) { return members.has(key); });
  return found == kParts.end() ? "" : *found;
}

void fail_model_type(const ConfigMembers& members, const std::string& type) {
  std::string fix;
  if (const std::string_view language = language_part(members); !language.empty()) {
    fix = fmt::format(
        "it has several parts, and {} describes its language model: write that object to a file of its own", language);
  } else {
    std::vector<std::string_view> types;
    std::vector<std::string_view> trained;
    for (const TransformerFamily& family : transformer_families()) {
      types.push_back(family.model_type);
      if (family.trained) trained.push_back(family.model_type);
    }
    const bool parts = members.has("vision_config") || members.has("audio_config");
    fix = fmt::format(
        "{}there are {}; for training {}; for estimates of other decoders write a config.json of llama "
        "(gated MLPs) or gpt2 (plain ones) with the same sizes",
        parts ? "it has more parts than a language model; " : "", fmt::join(types, ", "), fmt::join(trained, ", "));
  }
  members.fail("model_type", fmt::format("{} is not supported", quote(type)), fix);
}

/// Throws at the member that the field comes from, or with the name of the model alone.
void require_valid_members(const ConfigMembers& members, const ModelConfig& config) {
  struct FieldKey {
    std::string_view field;
    std::string_view key;
  };
  constexpr auto kKeys = std::to_array<FieldKey>({{"kv_heads", "num_key_value_heads"},
                                                  {"kv_heads", "num_attention_heads"},
                                                  {"heads", "num_attention_heads"},
                                                  {"heads", "n_head"},
                                                  {"layers", "num_hidden_layers"},
                                                  {"layers", "n_layer"}});
  const std::optional<ModelFault> fault = find_fault(config);
  if (!fault) return;
  for (const FieldKey& from : kKeys) {
    if (from.field == fault->field && members.has(from.key)) members.fail(from.key, fault->what, fault->fix);
  }
  require_valid(config);
}

/// No, at the place and for the reason of the error that `require` throws at a member; yes if it throws none.
template <typename Require>
Verdict verdict_of(const Require& require) {
  try {
    require();
  } catch (const LocatedError& refusal) {
    return {refusal.where(), refusal.problem()};
  }
  return {};
}

}  // namespace

ModelConfig read_model_config(const ConfigMembers& members, std::string name) {
  constexpr std::string_view kType = "model_type";
  if (const std::string_view part = language_part(members); !part.empty() && !members.has(kType)) {
    members.fail(part, "belongs to a model of several parts, which has no model_type",
                 "write this object to a file of its own");
  }
  const std::string type = members.text(kType);
  const auto* const reader = std::ranges::find(kReaders, type, &FamilyReader::model_type);
  const auto families = transformer_families();
  const auto family = std::ranges::find(families, type, &TransformerFamily::model_type);
  if (reader == kReaders.end() || family == families.end()) fail_model_type(members, type);
  ModelConfig config = reader->read(members);
  config.name = name;
  require_valid_members(members, config);
  for (const std::string& note : estimate_notes(members, *family, config.window > 0)) {
    config.notes.push_back(fmt::format("{}: {}", name, note));
  }
  config.supported_members = verdict_of([&] { require_supported_members(members, *family); });
  config.trained_members = verdict_of([&] { read_trained_members(members, *family, config); });
  return config;
}

}  // namespace lowgear::model
