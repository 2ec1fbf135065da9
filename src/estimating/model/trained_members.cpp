#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "estimating/model/config_members.h"

namespace lowgear::model {
namespace {

constexpr double kMaxRopeTheta = 1e12;
constexpr double kMaxRopeFactor = 1e6;

double number_from(const ConfigMembers& members, std::string_view key, double low, double high) {
  const double value = members.number(key);
  if (!(value >= low && value <= high)) members.fail(key, fmt::format("{} is not from {} to {}", value, low, high));
  return value;
}

double read_theta(const ConfigMembers& members) { return number_from(members, "rope_theta", 1, kMaxRopeTheta); }

/// Throws at the first member of `object` that is none of `known`.
void refuse_others(const ConfigMembers& object, std::initializer_list<std::string_view> known, std::string_view where) {
  for (const std::string& key : object.keys()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    object.fail(key, fmt::format("{} is not known in {}", quote(key), where));
  }
}

double read_factor(const ConfigMembers& object) { return number_from(object, "factor", 1, kMaxRopeFactor); }

RopeScaling read_llama3_scaling(const ConfigMembers& object) {
  constexpr std::string_view kHigh = "high_freq_factor";
  constexpr std::string_view kPositions = "original_max_position_embeddings";
  refuse_others(object, {"rope_type", "type", "rope_theta", "factor", "low_freq_factor", kHigh, kPositions},
                "llama3 scaling");
  const RopeScaling scaling = {
      .kind = RopeScaling::Kind::llama3,
      .factor = read_factor(object),
      .low_frequency_factor = number_from(object, "low_freq_factor", 1 / kMaxRopeFactor, kMaxRopeFactor),
      .high_frequency_factor = number_from(object, kHigh, 1 / kMaxRopeFactor, kMaxRopeFactor),
      .original_max_positions = object.integer(kPositions)};
  if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
    object.fail(kHigh, fmt::format("{} is not above low_freq_factor, which is {}", scaling.high_frequency_factor,
                                   scaling.low_frequency_factor));
  }
  if (scaling.original_max_positions < 1 || scaling.original_max_positions > kMaxPositions) {
    object.fail(kPositions, fmt::format("{} is not from 1 to {}", scaling.original_max_positions, kMaxPositions));
  }
  return scaling;
}

/// `rope_scaling`, or `rope_parameters` of transformers 5.
RopeScaling read_scaling(const ConfigMembers& object) {
  // Before transformers 4.43, `rope_type` was `type`; files may have both.
  const std::string_view key = object.has("rope_type") || !object.has("type") ? "rope_type" : "type";
  const std::string type = object.has(key) ? object.text(key) : "default";
  if (object.has("type") && object.text("type") != type) {
    object.fail("type", fmt::format("contradicts rope_type, which is {}", quote(type)), "remove one of them");
  }
  if (type == "llama3") return read_llama3_scaling(object);
  if (type == "linear") {
    refuse_others(object, {"rope_type", "type", "rope_theta", "factor"}, "linear scaling");
    RopeScaling scaling;
    scaling.kind = RopeScaling::Kind::linear;
    scaling.factor = read_factor(object);
    return scaling;
  }
  if (type != "default") {
    object.fail(key,
                fmt::format("RoPE type {} is not supported in training, only default, linear and llama3", quote(type)));
  }
  refuse_others(object, {"rope_type", "type", "rope_theta"}, "default RoPE");
  return {};
}

void read_rope(const ConfigMembers& members, ModelConfig& config) {
  const bool theta_given = members.has("rope_theta");
  if (theta_given) config.rope_theta = read_theta(members);
  const bool scaling_given = members.has("rope_scaling");
  if (scaling_given) config.rope_scaling = read_scaling(*members.object("rope_scaling"));
  if (!members.has("rope_parameters")) return;
  const std::unique_ptr<ConfigMembers> parameters = members.object("rope_parameters");
  const RopeScaling scaling = read_scaling(*parameters);
  if (scaling_given && scaling != config.rope_scaling) {
    members.fail("rope_parameters", "contradicts rope_scaling", "remove one of them");
  }
  config.rope_scaling = scaling;
  if (!parameters->has("rope_theta")) return;
  const double theta = read_theta(*parameters);
  if (theta_given && theta != config.rope_theta) {
    parameters->fail("rope_theta", "contradicts rope_theta next to it", "remove one of them");
  }
  config.rope_theta = theta;
}

void read_epsilon(const ConfigMembers& members, std::string_view key, double missing, ModelConfig& config) {
  constexpr double kLeast = 1e-30;
  config.norm_epsilon = members.has(key) ? number_from(members, key, kLeast, 1) : missing;
}

/// A window that no sequence outgrows changes nothing.
void refuse_window(const ConfigMembers& members, const ModelConfig& config) {
  if (config.window == 0 || config.window >= config.max_positions) return;
  constexpr std::string_view kWindow = "sliding_window";
  constexpr std::string_view kFix = "set it to null: sequences longer than the window are then computed differently";
  if (members.has(kWindow)) members.fail(kWindow, "a sliding window is not supported in training", kFix);
  members.fail("model_type", fmt::format("{} is missing, which means a window of {} tokens", kWindow, config.window),
               kFix);
}

}  // namespace

void read_trained_members(const ConfigMembers& members, const TransformerFamily& family, ModelConfig& config) {
  if (!family.trained) {
    std::string types;
    for (const TransformerFamily& known : transformer_families()) {
      if (known.trained) types += (types.empty() ? "" : ", ") + std::string(known.model_type);
    }
    members.fail("model_type", fmt::format("{} is not supported in training", quote(family.model_type)),
                 "there are " + types);
  }
  require_trained_members(members, family);
  refuse_window(members, config);
  if (config.positions == PositionKind::learned) {
    read_epsilon(members, "layer_norm_epsilon", 1e-5, config);
    return;
  }
  read_epsilon(members, "rms_norm_eps", 1e-6, config);
  read_rope(members, config);
}

}  // namespace lowgear::model
