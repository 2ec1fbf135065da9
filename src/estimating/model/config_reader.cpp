#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "estimating/model/activation_name.h"
#include "estimating/model/config_json.h"

namespace lowgear::model {
namespace {

/// Reads the parts of the description that the members of a family state.
class Parts {
 public:
  Parts(const ConfigMembers& members, const Family& family) : members_(&members), family_(&family) {}

  [[nodiscard]] const ConfigMembers& members() const { return *members_; }
  [[nodiscard]] const Family& family() const { return *family_; }

  /// The member that states a part: of several that is there, else the first one; null where the family has none.
  [[nodiscard]] const ConfigMember* find(std::string_view part) const {
    const ConfigMember* first = nullptr;
    const ConfigMember* given = nullptr;
    for (const ConfigMember& member : family_->members) {
      if (member.is != part) continue;
      if (first == nullptr) first = &member;
      if (!members_->has(member.name)) continue;
      if (given != nullptr && !is_one_of(members_->written(member.name), members_->written(given->name))) {
        members_->fail(member.name, fmt::format("contradicts {}, another name of it", given->name),
                       "remove one of them");
      }
      if (given == nullptr) given = &member;
    }
    return given == nullptr ? first : given;
  }
  /// Whether the part is given.
  [[nodiscard]] bool has(std::string_view part) const {
    const ConfigMember* const member = find(part);
    return member != nullptr && members_->has(member->name);
  }
  /// Whether it is given, or the family has a value for a missing one.
  [[nodiscard]] bool is_stated(std::string_view part) const {
    const ConfigMember* const member = find(part);
    return member != nullptr && (member->missing || members_->has(member->name));
  }
  /// Whether it is given as null, which is not always what a missing one means.
  [[nodiscard]] bool is_null(std::string_view part) const {
    const ConfigMember* const member = find(part);
    const std::vector<std::string> keys = members_->keys();
    return member != nullptr && !members_->has(member->name) && std::ranges::find(keys, member->name) != keys.end();
  }

  [[nodiscard]] std::int64_t size(std::string_view part, std::int64_t highest = kMaxModelWidth,
                                  std::int64_t lowest = 1) const {
    const ConfigMember& member = *find(part);
    if (member.missing && !members_->has(member.name)) return parse_integer(*member.missing).value();
    const std::int64_t value = members_->integer(member.name);
    if (value < lowest || value > highest) {
      members_->fail(member.name, fmt::format("{} is not from {} to {}", value, lowest, highest));
    }
    return value;
  }
  [[nodiscard]] bool flag(std::string_view part, bool otherwise) const {
    const ConfigMember* const member = find(part);
    if (member == nullptr) return otherwise;
    return members_->has(member->name) ? members_->boolean(member->name) : member->missing == "true";
  }
  void number(std::string_view part, double low, double high, double& value) const {
    const ConfigMember* const member = find(part);
    if (member == nullptr) return;
    if (members_->has(member->name)) {
      value = number_from(*members_, member->name, low, high);
    } else if (member->missing) {
      value = parse_number(*member->missing).value();
    }
  }

 private:
  const ConfigMembers* members_;
  const Family* family_;
};

/// A missing number of heads of keys is that of the family; null, all. A missing width of heads is that of the family,
/// or the part of the model's width that each has.
void read_heads(const Parts& parts, ModelConfig& config) {
  config.heads = parts.size("heads");
  const bool all = parts.is_null("kv_heads") || !parts.is_stated("kv_heads");
  config.kv_heads = all ? config.heads : parts.size("kv_heads");
  if (parts.is_stated("head_dim")) {
    config.head_dim = parts.size("head_dim");
  } else if (config.hidden % config.heads == 0) {
    config.head_dim = config.hidden / config.heads;
  } else {
    parts.members().fail(parts.find("heads")->name,
                         fmt::format("{} heads do not divide the width of {}", config.heads, config.hidden),
                         "give a divisor, or head_dim where the model type has it");
  }
}

void read_intermediate(const Parts& parts, ModelConfig& config) {
  constexpr std::string_view kFourfold = "fourfold_intermediate";
  const ConfigMember* const member = parts.find("intermediate");
  if (member != nullptr && (parts.has("intermediate") || !member->missing)) {
    config.intermediate = parts.size("intermediate");
    return;
  }
  config.intermediate = member == nullptr && parts.find("expert_intermediate") != nullptr
                            ? parts.size("expert_intermediate")
                            : 4 * config.hidden;
  if (!parts.has(kFourfold) || parts.size(kFourfold) == config.intermediate) return;
  parts.members().fail(parts.find(kFourfold)->name,
                       "the MLP of this family has four times the width of the model, whatever is written here",
                       "remove it");
}

void read_biases(const Parts& parts, ModelConfig& config) {
  config.qkv_biases = parts.flag("qkv_biases", parts.flag("attention_biases", config.qkv_biases));
  config.output_bias = parts.flag("attention_biases", config.output_bias);
  config.mlp_biases = parts.flag("mlp_biases", config.mlp_biases);
  if (parts.find("all_biases") == nullptr) return;
  config.qkv_biases = config.output_bias = config.mlp_biases = parts.flag("all_biases", true);
}

/// Layers without experts among those with them, by transformers' rule.
std::vector<bool> read_dense_layers(const Parts& parts, std::int64_t layers) {
  std::vector<bool> dense(static_cast<std::size_t>(layers), false);
  if (parts.find("expert_step") != nullptr) {
    const std::int64_t step = parts.size("expert_step", kMaxModelLayers);
    for (std::int64_t layer = 0; layer < layers; ++layer)
      dense[static_cast<std::size_t>(layer)] = (layer + 1) % step != 0;
  }
  if (parts.has("dense_layers")) {
    const std::string& key = parts.find("dense_layers")->name;
    for (const std::int64_t layer : parts.members().integers(key)) {
      if (layer < 0 || layer >= layers) {
        parts.members().fail(key, fmt::format("there is no layer {} among {}", layer, layers));
      }
      dense[static_cast<std::size_t>(layer)] = true;
    }
  }
  return std::ranges::find(dense, true) == dense.end() ? std::vector<bool>() : dense;
}

void read_experts(const Parts& parts, ModelConfig& config) {
  if (parts.find("experts") == nullptr) return;
  ExpertShape shape;
  shape.experts = parts.size("experts", kMaxExperts);
  shape.experts_per_token = parts.size("experts_per_token", shape.experts);
  shape.intermediate = parts.size("expert_intermediate");
  if (parts.find("shared_intermediate") != nullptr) {
    shape.shared_intermediate = parts.size("shared_intermediate", kMaxModelWidth, 0);
  }
  shape.dense = read_dense_layers(parts, config.layers);
  config.experts = std::move(shape);
  config.normalised_experts = parts.flag("normalised_experts", config.normalised_experts);
}

/// 0 where the member is null.
std::int64_t read_window_width(const Parts& parts) {
  if (parts.find("window") == nullptr || parts.is_null("window")) return 0;
  return parts.size("window", kMaxPositions);
}

std::vector<bool> read_layer_types(const Parts& parts, std::int64_t layers) {
  const std::string& key = parts.find("layer_types")->name;
  std::vector<bool> windowed;
  for (const std::string& type : parts.members().texts(key)) {
    if (type != "sliding_attention" && type != "full_attention") {
      parts.members().fail(key,
                           fmt::format("{} is not supported, only full_attention and sliding_attention", quote(type)));
    }
    windowed.push_back(type == "sliding_attention");
  }
  if (windowed.size() != static_cast<std::size_t>(layers)) {
    parts.members().fail(key, fmt::format("has {} elements for {} layers", windowed.size(), layers));
  }
  return windowed;
}

bool is_windowed(WindowRule rule, std::int64_t layer, std::int64_t limit) {
  switch (rule) {
    case WindowRule::none:
      return false;
    case WindowRule::all:
      return true;
    case WindowRule::from:
      return layer >= limit;
    case WindowRule::every_other_below:
      return layer % 2 == 0 && layer < limit;
  }
  return false;
}

/// The window of the layers that `layer_types` names, else of those that the family's rule does.
void read_windows(const Parts& parts, ModelConfig& config) {
  const std::int64_t window = parts.flag("uses_window", true) ? read_window_width(parts) : 0;
  std::vector<bool> windowed;
  if (parts.has("layer_types")) {
    windowed = read_layer_types(parts, config.layers);
  } else {
    const std::int64_t limit =
        parts.find("window_limit") == nullptr ? 0 : parts.size("window_limit", kMaxModelLayers, 0);
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      windowed.push_back(window > 0 && is_windowed(parts.family().window_rule, layer, limit));
    }
  }
  if (std::ranges::find(windowed, true) == windowed.end()) return;
  if (window == 0) {
    parts.members().fail(parts.find("layer_types")->name,
                         "layers of sliding_attention need a sliding_window, and there is none");
  }
  config.window = window;
  config.windowed = std::move(windowed);
}

/// Of a head: from a member of its own, or from one of rope_parameters.
void read_rotary_share(const Parts& parts, ModelConfig& config) {
  constexpr std::string_view kShare = "partial_rotary_factor";
  constexpr double kLeast = 1e-6;
  parts.number("rotary_share", kLeast, 1, config.rotary_share);
  if (parts.find("rotary_share") == nullptr || parts.has("rotary_share") || !parts.has("rope_parameters")) return;
  const auto rope = parts.members().object(parts.find("rope_parameters")->name);
  if (rope->has(kShare)) config.rotary_share = number_from(*rope, kShare, kLeast, 1);
}

/// Of an encoder and a decoder, which are alike if only one is given, or of one of them.
void read_layer_counts(const Parts& parts, ModelConfig& config) {
  if (parts.find("encoder_layers") != nullptr) {
    config.encoder_layers = parts.size("encoder_layers", kMaxModelLayers / 2);
    config.layers =
        config.encoder_layers +
        (parts.has("decoder_layers") ? parts.size("decoder_layers", kMaxModelLayers / 2) : config.encoder_layers);
    return;
  }
  config.layers = parts.size("layers", kMaxModelLayers);
  config.encoder_layers = std::min(config.encoder_layers, config.layers);
}

/// T5's name of its MLP: `relu`, `gated-gelu`, where GELU is the approximation by tanh.
void read_feed_forward(const Parts& parts, ModelConfig& config) {
  if (!parts.has("feed_forward")) return;
  constexpr std::string_view kGated = "gated-";
  const std::string& key = parts.find("feed_forward")->name;
  std::string name = parts.members().text(key);
  config.mlp = name.starts_with(kGated) ? MlpKind::gated : MlpKind::plain;
  if (config.mlp == MlpKind::gated) name = name == "gated-gelu" ? "gelu_new" : name.substr(kGated.size());
  const std::optional<Activation> activation = activation_named(name);
  if (!activation)
    parts.members().fail(key, fmt::format("{} is not supported", quote(parts.members().text(key))),
                         "give relu or gated-gelu");
  config.activation = *activation;
}

/// What an estimate counts, too.
ModelConfig read_layers(const Parts& parts) {
  ModelConfig config = parts.family().blocks;
  config.vocabulary = parts.size("vocabulary", kMaxVocabulary);
  config.hidden = parts.size("hidden");
  read_layer_counts(parts, config);
  read_heads(parts, config);
  read_intermediate(parts, config);
  config.max_positions =
      parts.find("max_positions") == nullptr ? kMaxPositions : parts.size("max_positions", kMaxPositions);
  config.tied_embeddings = parts.flag("tied_embeddings", false);
  read_biases(parts, config);
  config.parallel_residual = parts.flag("parallel_residual", config.parallel_residual);
  if (!parts.flag("norm_before", true)) config.norm_place = NormPlace::after;
  const bool none_after = config.norm_place == NormPlace::after && !config.head_transform;
  config.final_norm = !none_after && !parts.flag("no_final_norm", false);
  if (parts.find("token_types") != nullptr) config.token_types = parts.size("token_types", kMaxVocabulary);
  if (parts.has("embedding_width")) {
    const std::int64_t width = parts.size("embedding_width");
    config.embedding_width = width == config.hidden ? 0 : width;
  }
  read_feed_forward(parts, config);
  if (config.positions == PositionKind::relative) {
    config.relative_buckets = parts.size("relative_buckets", kMaxModelWidth);
    config.relative_distance = parts.size("relative_distance", kMaxPositions);
  }
  read_experts(parts, config);
  read_windows(parts, config);
  read_rotary_share(parts, config);
  return config;
}

constexpr double kMaxRopeTheta = 1e12;

void read_rope(const Parts& parts, ModelConfig& config) {
  const ConfigMembers& members = parts.members();
  std::vector<std::string_view> own;
  if (parts.find("rotary_share") != nullptr) own.emplace_back("partial_rotary_factor");
  const bool theta_given = parts.has("rope_theta");
  parts.number("rope_theta", 1, kMaxRopeTheta, config.rope_theta);
  config.rotary_interleaved = parts.flag("rotary_interleaved", false);
  const auto read_theta = [&](const ConfigMembers& object) {
    if (!object.has("rope_theta")) return;
    const double theta = number_from(object, "rope_theta", 1, kMaxRopeTheta);
    if (theta_given && theta != config.rope_theta) {
      object.fail("rope_theta", "contradicts rope_theta next to it", "remove one of them");
    }
    config.rope_theta = theta;
  };
  const bool scaling_given = parts.has("rope_scaling");
  if (scaling_given) {
    const auto object = members.object(parts.find("rope_scaling")->name);
    config.rope_scaling = read_rope_scaling(*object, config.max_positions, own);
    read_theta(*object);
  }
  if (!parts.has("rope_parameters")) return;
  const std::string& key = parts.find("rope_parameters")->name;
  const auto object = members.object(key);
  const RopeScaling scaling = read_rope_scaling(*object, config.max_positions, own);
  if (scaling_given && scaling != config.rope_scaling) {
    members.fail(key, "contradicts rope_scaling", "remove one of them");
  }
  config.rope_scaling = scaling;
  read_theta(*object);
}

void read_activation(const Parts& parts, ModelConfig& config) {
  if (!parts.has("activation")) return;
  const std::string& key = parts.find("activation")->name;
  const std::string name = parts.members().text(key);
  if (const std::optional<Activation> activation = activation_named(name)) {
    config.activation = *activation;
    return;
  }
  std::vector<std::string_view> names;
  for (const ActivationName& known : kActivationNames) names.push_back(known.name);
  parts.members().fail(key,
                       fmt::format("{} is not supported in training, only {}", quote(name), fmt::join(names, ", ")));
}

/// Throws at the member that leaves dimensions of a head which cannot be turned in pairs.
void require_pairs(const Parts& parts, const ModelConfig& config) {
  const bool is_odd = config.head_dim % 2 != 0;
  if (!is_odd && rotary_dims(config) > 0) return;
  const std::string_view share = parts.has("rotary_share") ? "rotary_share" : "heads";
  const std::string_view part = !is_odd ? share : parts.has("head_dim") ? "head_dim" : "heads";
  parts.members().fail(parts.find(part)->name, fmt::format("{} of {} dimensions of a head cannot be turned in pairs",
                                                           rotary_dims(config), config.head_dim));
}

/// What only the trainer computes.
void read_trained_parts(const Parts& parts, ModelConfig& config) {
  require_trained_members(parts.members(), parts.family());
  constexpr double kLeastEpsilon = 1e-30;
  constexpr double kMostDropout = 0.99;
  constexpr double kMostBalance = 1e6;
  parts.number("norm_epsilon", kLeastEpsilon, 1, config.norm_epsilon);
  if (config.positions == PositionKind::rotary) {
    read_rope(parts, config);
    require_pairs(parts, config);
  }
  read_activation(parts, config);
  if (parts.flag("balances_experts", false)) parts.number("balance_weight", 0, kMostBalance, config.balance_weight);
  parts.number("all_dropout", 0, kMostDropout, config.embedding_dropout);
  parts.number("all_dropout", 0, kMostDropout, config.residual_dropout);
  parts.number("embedding_dropout", 0, kMostDropout, config.embedding_dropout);
  parts.number("residual_dropout", 0, kMostDropout, config.residual_dropout);
  for (double* const share : {&config.embedding_dropout, &config.attention_dropout, &config.residual_dropout,
                              &config.mlp_dropout, &config.final_dropout}) {
    parts.number("every_dropout", 0, kMostDropout, *share);
  }
  config.scaled_head = parts.has("scaled_head") ? parts.flag("scaled_head", false)
                                                : parts.find("scaled_head") != nullptr && config.tied_embeddings;
  if (parts.find("start_token") != nullptr) config.start_token = parts.size("start_token", config.vocabulary - 1, 0);
  parts.number("attention_dropout", 0, kMostDropout, config.attention_dropout);
}

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
    for (const Family& family : families()) types.push_back(family.model_type);
    const bool parts = members.has("vision_config") || members.has("audio_config");
    fix = fmt::format(
        "{}there are {}; for estimates of other decoders write a config.json of llama (gated MLPs) or gpt2 (plain "
        "ones) with the same sizes",
        parts ? "it has more parts than a language model; " : "", fmt::join(types, ", "));
  }
  members.fail("model_type", fmt::format("{} is not supported", quote(type)), fix);
}

/// Throws at the member that the field comes from, or with the name of the model alone.
void require_valid_members(const Parts& parts, const ModelConfig& config) {
  const std::optional<ModelFault> fault = find_fault(config);
  if (!fault) return;
  for (const std::string_view part : {fault->field, std::string_view("heads")}) {
    if ((part == fault->field || fault->field == "kv_heads") && parts.has(part)) {
      parts.members().fail(parts.find(part)->name, fault->what, fault->fix);
    }
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
  const Family* const family = find_family(type);
  if (family == nullptr) fail_model_type(members, type);
  const Parts parts(members, *family);
  ModelConfig config = read_layers(parts);
  config.name = name;
  require_valid_members(parts, config);
  for (const std::string& note : estimate_notes(members, *family, config.window > 0)) {
    config.notes.push_back(fmt::format("{}: {}", name, note));
  }
  const ConfigMember* const use = parts.find("uses_window");
  if (use != nullptr && !parts.has("uses_window") && parts.has("window")) {
    config.notes.push_back(fmt::format("{}: {} is false where it is missing: no layer has a window", name, use->name));
  }
  config.supported_members = verdict_of([&] { require_supported_members(members, *family); });
  config.trained_members = verdict_of([&] { read_trained_parts(parts, config); });
  return config;
}

}  // namespace lowgear::model
