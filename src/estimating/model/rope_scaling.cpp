#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "estimating/model/config_members.h"

namespace lowgear::model {
namespace {

constexpr double kMaxRopeFactor = 1e6;
constexpr std::string_view kOriginal = "original_max_position_embeddings";

/// Throws at the first member of `object` that is none of `known`.
void refuse_others(const ConfigMembers& object, std::vector<std::string_view> known,
                   const std::vector<std::string_view>& own, std::string_view where) {
  known.insert(known.end(), {"rope_type", "type", "rope_theta"});
  known.insert(known.end(), own.begin(), own.end());
  for (const std::string& key : object.keys()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    object.fail(key, fmt::format("{} is not known in {}", quote(key), where));
  }
}

double read_factor(const ConfigMembers& object) { return number_from(object, "factor", 1, kMaxRopeFactor); }

double number_or(const ConfigMembers& object, std::string_view key, double otherwise) {
  return object.has(key) ? number_from(object, key, 1 / kMaxRopeFactor, kMaxRopeFactor) : otherwise;
}

std::int64_t read_original(const ConfigMembers& object) {
  const std::int64_t positions = object.integer(kOriginal);
  if (positions < 1 || positions > kMaxPositions) {
    object.fail(kOriginal, fmt::format("{} is not from 1 to {}", positions, kMaxPositions));
  }
  return positions;
}

RopeScaling read_llama3(const ConfigMembers& object) {
  constexpr std::string_view kHigh = "high_freq_factor";
  const RopeScaling scaling = {
      .kind = RopeScaling::Kind::llama3,
      .factor = read_factor(object),
      .low_frequency_factor = number_from(object, "low_freq_factor", 1 / kMaxRopeFactor, kMaxRopeFactor),
      .high_frequency_factor = number_from(object, kHigh, 1 / kMaxRopeFactor, kMaxRopeFactor),
      .original_max_positions = read_original(object)};
  if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
    object.fail(kHigh, fmt::format("{} is not above low_freq_factor, which is {}", scaling.high_frequency_factor,
                                   scaling.low_frequency_factor));
  }
  return scaling;
}

/// transformers' attention_factor where it is not given.
double yarn_attention_factor(const ConfigMembers& object, double factor) {
  if (object.has("attention_factor")) return number_or(object, "attention_factor", 1);
  const auto scale = [factor](double share) { return factor <= 1 ? 1 : 0.1 * share * std::log(factor) + 1; };
  if (!object.has("mscale") || !object.has("mscale_all_dim")) return scale(1);
  return scale(number_or(object, "mscale", 1)) / scale(number_or(object, "mscale_all_dim", 1));
}

RopeScaling read_yarn(const ConfigMembers& object, std::int64_t max_positions) {
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::yarn;
  scaling.factor = read_factor(object);
  scaling.original_max_positions = object.has(kOriginal) ? read_original(object) : max_positions;
  scaling.beta_fast = number_or(object, "beta_fast", scaling.beta_fast);
  scaling.beta_slow = number_or(object, "beta_slow", scaling.beta_slow);
  if (scaling.beta_fast < scaling.beta_slow) {
    object.fail(object.has("beta_fast") ? "beta_fast" : "beta_slow",
                fmt::format("beta_fast {} is below beta_slow {}", scaling.beta_fast, scaling.beta_slow));
  }
  scaling.attention_factor = yarn_attention_factor(object, scaling.factor);
  if (object.has("truncate")) scaling.truncate = object.boolean("truncate");
  return scaling;
}

}  // namespace

RopeScaling read_rope_scaling(const ConfigMembers& object, std::int64_t max_positions,
                              const std::vector<std::string_view>& own) {
  // Before transformers 4.43, `rope_type` was `type`; files may have both.
  const std::string_view key = object.has("rope_type") || !object.has("type") ? "rope_type" : "type";
  const std::string type = object.has(key) ? object.text(key) : "default";
  if (object.has("type") && object.text("type") != type) {
    object.fail("type", fmt::format("contradicts rope_type, which is {}", quote(type)), "remove one of them");
  }
  if (type == "llama3") {
    refuse_others(object, {"factor", "low_freq_factor", "high_freq_factor", kOriginal}, own, "llama3 scaling");
    return read_llama3(object);
  }
  if (type == "yarn") {
    refuse_others(
        object,
        {"factor", kOriginal, "beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate"},
        own, "yarn scaling");
    return read_yarn(object, max_positions);
  }
  if (type == "linear" || type == "dynamic") {
    const bool dynamic = type == "dynamic";
    refuse_others(object, {"factor", dynamic ? kOriginal : "factor"}, own, fmt::format("{} scaling", type));
    RopeScaling scaling;
    scaling.kind = dynamic ? RopeScaling::Kind::dynamic : RopeScaling::Kind::linear;
    scaling.factor = read_factor(object);
    if (!dynamic) return scaling;
    scaling.original_max_positions = max_positions;
    if (object.has(kOriginal) && read_original(object) != max_positions) {
      object.fail(kOriginal, fmt::format("dynamic scaling begins at max_position_embeddings, {}", max_positions),
                  "remove it, or set max_position_embeddings");
    }
    return scaling;
  }
  if (type != "default") {
    object.fail(key, fmt::format("RoPE type {} is not supported in training, only default, linear, dynamic, llama3, "
                                 "yarn",
                                 quote(type)));
  }
  refuse_others(object, {}, own, "default RoPE");
  return {};
}

}  // namespace lowgear::model
