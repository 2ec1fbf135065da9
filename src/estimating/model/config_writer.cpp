#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/core/formats/json.h"
#include "estimating/model/activation_name.h"
#include "estimating/model/config_json.h"
#include "estimating/model/family.h"

namespace lowgear::model {
namespace {

Json scaling_json(const RopeScaling& scaling) {
  switch (scaling.kind) {
    case RopeScaling::Kind::none:
      return nullptr;
    case RopeScaling::Kind::linear:
      return {{"rope_type", "linear"}, {"factor", scaling.factor}};
    case RopeScaling::Kind::dynamic:
      return {{"rope_type", "dynamic"},
              {"factor", scaling.factor},
              {"original_max_position_embeddings", scaling.original_max_positions}};
    case RopeScaling::Kind::llama3:
      return {{"rope_type", "llama3"},
              {"factor", scaling.factor},
              {"low_freq_factor", scaling.low_frequency_factor},
              {"high_freq_factor", scaling.high_frequency_factor},
              {"original_max_position_embeddings", scaling.original_max_positions}};
    case RopeScaling::Kind::yarn:
      return {{"rope_type", "yarn"},
              {"factor", scaling.factor},
              {"original_max_position_embeddings", scaling.original_max_positions},
              {"beta_fast", scaling.beta_fast},
              {"beta_slow", scaling.beta_slow},
              {"attention_factor", scaling.attention_factor},
              {"truncate", scaling.truncate}};
  }
  return nullptr;
}

/// The first layer with a window, or the number behind the last one: what the family's rule reads as these layers.
std::int64_t window_limit(const ModelConfig& config, WindowRule rule) {
  const auto& windowed = config.windowed;
  if (rule == WindowRule::from) return std::ranges::find(windowed, true) - windowed.begin();
  return windowed.rend() - std::find(windowed.rbegin(), windowed.rend(), true);
}

Json layer_types(const ModelConfig& config) {
  Json types = Json::array();
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(config.layers); ++layer) {
    types.push_back(config.window > 0 && config.windowed[layer] ? "sliding_attention" : "full_attention");
  }
  return types;
}

Json expert_part(const ModelConfig& config, std::string_view part) {
  const ExpertShape& experts = *config.experts;
  if (part == "experts") return experts.experts;
  if (part == "experts_per_token") return experts.experts_per_token;
  if (part == "expert_intermediate") return experts.intermediate;
  if (part == "shared_intermediate") return experts.shared_intermediate;
  if (part == "normalised_experts") return config.normalised_experts;
  if (part == "expert_step") return 1;
  if (part == "balances_experts") return config.balance_weight > 0;
  if (part == "balance_weight" && config.balance_weight > 0) return config.balance_weight;
  if (part != "dense_layers") return {};
  Json layers = Json::array();
  for (std::size_t layer = 0; layer < experts.dense.size(); ++layer) {
    if (experts.dense[layer]) layers.push_back(layer);
  }
  return layers;
}

struct SizePart {
  std::string_view part;
  std::int64_t ModelConfig::*size;
};
struct FlagPart {
  std::string_view part;
  bool ModelConfig::*flag;
};
struct NumberPart {
  std::string_view part;
  double ModelConfig::*number;
};
constexpr SizePart kSizes[] = {{"vocabulary", &ModelConfig::vocabulary},
                               {"hidden", &ModelConfig::hidden},
                               {"layers", &ModelConfig::layers},
                               {"heads", &ModelConfig::heads},
                               {"kv_heads", &ModelConfig::kv_heads},
                               {"head_dim", &ModelConfig::head_dim},
                               {"intermediate", &ModelConfig::intermediate},
                               {"max_positions", &ModelConfig::max_positions},
                               {"token_types", &ModelConfig::token_types},
                               {"encoder_layers", &ModelConfig::encoder_layers},
                               {"relative_buckets", &ModelConfig::relative_buckets},
                               {"relative_distance", &ModelConfig::relative_distance},
                               {"start_token", &ModelConfig::start_token}};
constexpr FlagPart kFlags[] = {
    {"tied_embeddings", &ModelConfig::tied_embeddings}, {"attention_biases", &ModelConfig::qkv_biases},
    {"all_biases", &ModelConfig::qkv_biases},           {"qkv_biases", &ModelConfig::qkv_biases},
    {"mlp_biases", &ModelConfig::mlp_biases},           {"parallel_residual", &ModelConfig::parallel_residual},
    {"scaled_head", &ModelConfig::scaled_head},         {"rotary_interleaved", &ModelConfig::rotary_interleaved}};
constexpr NumberPart kNumbers[] = {
    {"norm_epsilon", &ModelConfig::norm_epsilon},           {"rope_theta", &ModelConfig::rope_theta},
    {"rotary_share", &ModelConfig::rotary_share},           {"embedding_dropout", &ModelConfig::embedding_dropout},
    {"attention_dropout", &ModelConfig::attention_dropout}, {"residual_dropout", &ModelConfig::residual_dropout},
    {"all_dropout", &ModelConfig::residual_dropout},        {"every_dropout", &ModelConfig::residual_dropout}};

/// T5's name of an MLP.
std::string feed_forward_name(const ModelConfig& config) {
  if (config.mlp == MlpKind::plain) return std::string(name_of(config.activation));
  if (config.activation == Activation::gelu_tanh) return "gated-gelu";
  return fmt::format("gated-{}", name_of(config.activation));
}

/// The value of a member; discarded where none has to be written.
Json part_json(const ModelConfig& config, const Family& family, std::string_view part) {
  for (const SizePart& known : kSizes) {
    if (known.part == part) return config.*known.size;
  }
  for (const FlagPart& known : kFlags) {
    if (known.part == part) return config.*known.flag;
  }
  for (const NumberPart& known : kNumbers) {
    if (known.part == part) return config.*known.number;
  }
  if (part == "activation") return name_of(config.activation);
  if (part == "feed_forward") return feed_forward_name(config);
  if (part == "decoder_layers") return config.layers - config.encoder_layers;
  if (part == "rope_scaling") return scaling_json(config.rope_scaling);
  if (part == "norm_before") return config.norm_place == NormPlace::before;
  if (part == "no_final_norm") return config.norm_place == NormPlace::before && !config.final_norm;
  if (part == "embedding_width") return embedding_width(config);
  if (part == "window") return config.window > 0 ? Json(config.window) : Json(nullptr);
  if (part == "uses_window") return config.window > 0;
  if (part == "window_limit") return window_limit(config, family.window_rule);
  if (part == "layer_types") return layer_types(config);
  const Json experts = config.experts ? expert_part(config, part) : Json();
  return experts.is_null() ? Json(Json::value_t::discarded) : experts;
}

}  // namespace

std::string to_json(const ModelConfig& config) {
  const Family& family = family_of(config);
  Json document = {{"architectures", {family.architecture}}, {"model_type", family.model_type}};
  for (const ConfigMember& member : family.members) {
    if (member.is.empty() || member.alias) continue;
    Json value = part_json(config, family, member.is);
    if (!value.is_discarded()) document[member.name] = std::move(value);
  }
  return document.dump(2) + "\n";
}

}  // namespace lowgear::model
