#include "estimating/model/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "estimating/model/config_members.h"
#include "estimating/model/parameters.h"

namespace lowgear::model {
namespace {

/// A config.json has some fifty members; id2label and the like may have as many more.
constexpr std::size_t kMaxValues = std::size_t{1} << 16;
constexpr double kMaxRopeTheta = 1e12;
constexpr double kMaxRopeFactor = 1e6;

/// How a config.json calls what both architectures have.
struct KeyNames {
  std::string_view vocabulary = "vocab_size";
  std::string_view hidden = "hidden_size";
  std::string_view layers = "num_hidden_layers";
  std::string_view heads = "num_attention_heads";
  std::string_view kv_heads = "num_key_value_heads";
  std::string_view head_dim = "head_dim";
  std::string_view intermediate = "intermediate_size";
  std::string_view max_positions = "max_position_embeddings";
  std::string_view norm_epsilon = "rms_norm_eps";
};

KeyNames key_names(Architecture architecture) {
  if (architecture == Architecture::llama) return {};
  return {.vocabulary = "vocab_size",
          .hidden = "n_embd",
          .layers = "n_layer",
          .heads = "n_head",
          .kv_heads = "num_key_value_heads",
          .head_dim = "head_dim",
          .intermediate = "n_inner",
          .max_positions = "n_positions",
          .norm_epsilon = "layer_norm_epsilon"};
}

// Validity.

/// Throws at a member of the document, as JsonView does.
class Checker {
 public:
  explicit Checker(const std::string& source) : source_(source) {}

  [[noreturn]] void fail(std::string_view key, std::string_view what, std::string_view fix = {}) const {
    throw_input_error({fmt::format("{}: $.{}", source_, key), 0, 0}, what, fix);
  }
  void size(std::string_view key, std::int64_t value, std::int64_t highest) const {
    if (value < 1 || value > highest) fail(key, fmt::format("{} is not from 1 to {}", value, highest));
  }
  void number(std::string_view key, double value, double low, double high) const {
    if (!(value >= low && value <= high)) fail(key, fmt::format("{} is not from {} to {}", value, low, high));
  }

 private:
  const std::string& source_;
};

void check_heads(const Checker& check, const ModelConfig& config, const KeyNames& keys) {
  check.size(keys.heads, config.heads, kMaxModelWidth);
  check.size(keys.kv_heads, config.kv_heads, config.heads);
  check.size(keys.head_dim, config.head_dim, kMaxModelWidth);
  if (config.heads % config.kv_heads != 0) {
    check.fail(keys.kv_heads, fmt::format("{} heads of keys do not divide {} heads", config.kv_heads, config.heads),
               "give a divisor of the number of heads");
  }
  if (config.heads * config.head_dim > kMaxModelWidth) {
    check.fail(keys.heads,
               fmt::format("{} heads of {} are wider than {}", config.heads, config.head_dim, kMaxModelWidth));
  }
}

void check_rope(const Checker& check, const ModelConfig& config) {
  check.number("rope_theta", config.rope_theta, 1, kMaxRopeTheta);
  if (config.head_dim % 2 != 0) {
    check.fail("head_dim", fmt::format("{} is odd, but rotary embeddings turn pairs", config.head_dim));
  }
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.kind == RopeScaling::Kind::none) return;
  check.number("rope_scaling.factor", scaling.factor, 1, kMaxRopeFactor);
  if (scaling.kind == RopeScaling::Kind::linear) return;
  check.number("rope_scaling.low_freq_factor", scaling.low_frequency_factor, 1 / kMaxRopeFactor, kMaxRopeFactor);
  check.number("rope_scaling.high_freq_factor", scaling.high_frequency_factor, 1 / kMaxRopeFactor, kMaxRopeFactor);
  if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
    check.fail("rope_scaling.high_freq_factor",
               fmt::format("{} is not above low_freq_factor, which is {}", scaling.high_frequency_factor,
                           scaling.low_frequency_factor));
  }
  check.size("rope_scaling.original_max_position_embeddings", scaling.original_max_positions, kMaxPositions);
}

void check_gpt2(const Checker& check, const ModelConfig& config) {
  if (config.kv_heads != config.heads) check.fail("num_key_value_heads", "GPT-2 has no grouped-query attention");
  if (config.heads * config.head_dim != config.hidden) {
    check.fail("n_head",
               fmt::format("{} heads of {} are not the width of {}", config.heads, config.head_dim, config.hidden),
               "n_embd must be a multiple of n_head");
  }
  if (!config.attention_bias || !config.mlp_bias) check.fail("model_type", "GPT-2 has a bias in every layer");
  if (config.rope_scaling.kind != RopeScaling::Kind::none) {
    check.fail("rope_scaling", "GPT-2 has no rotary embeddings");
  }
}

// Reading.

/// Reads the members of a config.json one by one and then knows which ones were never read.
class Reader {
 public:
  explicit Reader(JsonView root) : root_(std::move(root)) {
    if (!root_.json().is_object()) root_.fail("expected an object, the config.json of a model");
  }

  /// Whether the member is there and not null, which stands for its default.
  bool given(std::string_view key) {
    asked_.push_back(key);
    return root_.has(key) && !root_.at(key).json().is_null();
  }
  [[nodiscard]] bool has(std::string_view key) const { return root_.has(key); }
  [[nodiscard]] JsonView at(std::string_view key) {
    asked_.push_back(key);
    return root_.at(key);
  }
  std::int64_t integer(std::string_view key) { return at(key).integer(); }
  std::int64_t integer(std::string_view key, std::int64_t otherwise) { return given(key) ? integer(key) : otherwise; }
  double number(std::string_view key, double otherwise) { return given(key) ? at(key).number() : otherwise; }
  bool flag(std::string_view key, bool otherwise) { return given(key) ? at(key).boolean() : otherwise; }

  void require_flag(std::string_view key, bool only) {
    if (flag(key, only) != only) at(key).fail(fmt::format("{} is not supported", !only));
  }
  /// `otherwise` is what a missing member means.
  void require_text(std::string_view key, std::string_view otherwise, std::initializer_list<std::string_view> known) {
    const std::string text = given(key) ? at(key).text() : std::string(otherwise);
    if (std::ranges::find(known, text) != known.end()) return;
    root_.at(key).fail(fmt::format("{} is not supported, only {}", quote(text), fmt::join(known, ", ")));
  }
  /// `otherwise` is what a missing member means.
  void require_no_dropout(std::string_view key, double otherwise) {
    constexpr std::string_view kFix = "set it to 0: training is without dropout";
    if (!given(key) && otherwise > 0) {
      root_.fail(fmt::format("the member {} is missing, which means dropout of {}", quote(key), otherwise), kFix);
    }
    if (number(key, otherwise) != 0) at(key).fail("dropout is not supported", kFix);
  }
  void require_architecture(std::string_view name) {
    if (!given("architectures")) return;
    const JsonView names = at("architectures");
    if (names.size() != 1 || names.at(0).text() != name) {
      names.fail(fmt::format("only {} is supported here", name), "give the config.json of a language model");
    }
  }
  void refuse_others() {
    for (const auto& member : root_.json().items()) {
      const std::string& key = member.key();
      if (changes_nothing(key) || std::ranges::find(asked_, key) != asked_.end()) continue;
      if (key == "quantization_config") root_.at(key).fail("quantised weights are not supported", "give the originals");
      root_.at(key).fail(fmt::format("{} is not known, and might change the result", quote(key)),
                         "remove it if it does not");
    }
  }

 private:
  JsonView root_;
  std::vector<std::string_view> asked_;
};

/// Throws at the first member of `object` that is none of `known`.
void refuse_others(const JsonView& object, std::initializer_list<std::string_view> known, std::string_view where) {
  for (const auto& member : object.json().items()) {
    if (std::ranges::find(known, member.key()) != known.end()) continue;
    object.at(member.key()).fail(fmt::format("{} is not known in {}", quote(member.key()), where));
  }
}

RopeScaling read_llama3_scaling(const JsonView& object) {
  refuse_others(object,
                {"rope_type", "type", "rope_theta", "factor", "low_freq_factor", "high_freq_factor",
                 "original_max_position_embeddings"},
                "llama3 scaling");
  return {.kind = RopeScaling::Kind::llama3,
          .factor = object.at("factor").number(),
          .low_frequency_factor = object.at("low_freq_factor").number(),
          .high_frequency_factor = object.at("high_freq_factor").number(),
          .original_max_positions = object.at("original_max_position_embeddings").integer()};
}

/// `rope_scaling`, or `rope_parameters` of transformers 5.
RopeScaling read_scaling(const JsonView& object) {
  if (!object.json().is_object()) object.fail("expected an object or null");
  // `type` is what transformers called it before 4.43; files may have both.
  const char* const key = object.has("rope_type") || !object.has("type") ? "rope_type" : "type";
  const std::string type = object.has(key) ? object.at(key).text() : "default";
  if (object.has("type") && object.at("type").text() != type) {
    object.at("type").fail(fmt::format("contradicts rope_type, which is {}", quote(type)), "remove one of them");
  }
  if (type == "llama3") return read_llama3_scaling(object);
  if (type == "linear") {
    refuse_others(object, {"rope_type", "type", "rope_theta", "factor"}, "linear scaling");
    RopeScaling scaling;
    scaling.kind = RopeScaling::Kind::linear;
    scaling.factor = object.at("factor").number();
    return scaling;
  }
  if (type != "default") {
    object.at(key).fail(fmt::format("RoPE type {} is not supported, only default, linear and llama3", quote(type)));
  }
  refuse_others(object, {"rope_type", "type", "rope_theta"}, "default RoPE");
  return {};
}

void read_rope(Reader& reader, ModelConfig& config) {
  const bool theta_given = reader.given("rope_theta");
  config.rope_theta = reader.number("rope_theta", 10000);
  const bool scaling_given = reader.given("rope_scaling");
  if (scaling_given) config.rope_scaling = read_scaling(reader.at("rope_scaling"));
  if (!reader.given("rope_parameters")) return;
  const JsonView parameters = reader.at("rope_parameters");
  const RopeScaling scaling = read_scaling(parameters);
  if (scaling_given && scaling != config.rope_scaling) {
    parameters.fail("contradicts rope_scaling", "remove one of them");
  }
  config.rope_scaling = scaling;
  if (!parameters.has("rope_theta")) return;
  const double theta = parameters.at("rope_theta").number();
  if (theta_given && theta != config.rope_theta) {
    parameters.at("rope_theta").fail("contradicts rope_theta next to it", "remove one of them");
  }
  config.rope_theta = theta;
}

/// hidden / heads, where that is a whole number.
std::int64_t derived_head_dim(Reader& reader, const ModelConfig& config, std::string_view heads_key) {
  if (config.heads < 1) return 1;  // said by require_valid
  if (config.hidden % config.heads != 0) {
    reader.at(heads_key).fail(fmt::format("{} heads do not divide the width of {}", config.heads, config.hidden),
                              "give a divisor, or head_dim where the model type has it");
  }
  return config.hidden / config.heads;
}

void read_sizes(Reader& reader, ModelConfig& config) {
  const KeyNames keys = key_names(config.architecture);
  config.vocabulary = reader.integer(keys.vocabulary);
  config.hidden = reader.integer(keys.hidden);
  config.layers = reader.integer(keys.layers);
  config.heads = reader.integer(keys.heads);
  config.max_positions = reader.integer(keys.max_positions);
}

/// A window of attention that no sequence outgrows changes nothing. Mistral's is 4096 when the member is missing.
void check_sliding_window(Reader& reader, const ModelConfig& config) {
  constexpr std::string_view kKey = "sliding_window";
  if (reader.given(kKey)) {
    if (reader.integer(kKey) < config.max_positions) {
      reader.at(kKey).fail("a sliding window is not supported",
                           "set it to null; longer sequences then mean another model");
    }
  } else {
    (void)reader.at(kKey);  // missing rather than null
  }
}

ModelConfig read_llama(Reader& reader, bool mistral) {
  ModelConfig config;
  config.architecture = Architecture::llama;
  reader.require_architecture(mistral ? "MistralForCausalLM" : "LlamaForCausalLM");
  read_sizes(reader, config);
  config.intermediate = reader.integer("intermediate_size");
  // Mistral's default when the member is missing is 8, not the number of heads; its files have it.
  config.kv_heads =
      mistral ? reader.integer("num_key_value_heads") : reader.integer("num_key_value_heads", config.heads);
  config.head_dim =
      reader.given("head_dim") ? reader.integer("head_dim") : derived_head_dim(reader, config, "num_attention_heads");
  config.norm_epsilon = reader.number("rms_norm_eps", 1e-6);
  config.tied_embeddings = reader.flag("tie_word_embeddings", false);
  reader.require_text("hidden_act", "silu", {"silu", "swish"});
  reader.require_no_dropout("attention_dropout", 0);
  read_rope(reader, config);
  if (mistral) {
    check_sliding_window(reader, config);
    return config;
  }
  config.attention_bias = reader.flag("attention_bias", false);
  config.mlp_bias = reader.flag("mlp_bias", false);
  reader.require_flag("rope_interleaved", false);
  return config;
}

ModelConfig read_gpt2(Reader& reader) {
  ModelConfig config;
  config.architecture = Architecture::gpt2;
  config.attention_bias = true;
  config.mlp_bias = true;
  reader.require_architecture("GPT2LMHeadModel");
  read_sizes(reader, config);
  config.kv_heads = config.heads;
  config.head_dim = derived_head_dim(reader, config, "n_head");
  // Out of bounds is said by require_valid; four times that must not overflow here.
  config.intermediate = reader.integer("n_inner", 4 * std::clamp(config.hidden, std::int64_t{0}, kMaxModelWidth));
  config.norm_epsilon = reader.number("layer_norm_epsilon", 1e-5);
  config.tied_embeddings = reader.flag("tie_word_embeddings", true);
  reader.require_text("activation_function", "gelu_new", {"gelu_new"});
  for (const std::string_view key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) reader.require_no_dropout(key, 0.1);
  reader.require_flag("scale_attn_weights", true);
  reader.require_flag("scale_attn_by_inverse_layer_idx", false);
  reader.require_flag("reorder_and_upcast_attn", false);
  reader.require_flag("add_cross_attention", false);
  return config;
}

ModelConfig read_config(Reader& reader) {
  const auto has = [&reader](std::string_view key) { return reader.has(key); };
  if (const std::string_view part = language_part(has); !part.empty() && !reader.has("model_type")) {
    reader.at(part).fail(kOfLanguagePart, kFixOfLanguagePart);
  }
  const JsonView type = reader.at("model_type");
  const std::string name = type.text();
  if (name == "llama") return read_llama(reader, false);
  if (name == "mistral") return read_llama(reader, true);
  if (name == "gpt2") return read_gpt2(reader);
  type.fail(fmt::format("{} is not supported", quote(name)), fix_of_model_type(has, "llama, mistral, gpt2"));
}

// Writing.

Json scaling_json(const RopeScaling& scaling) {
  if (scaling.kind == RopeScaling::Kind::none) return nullptr;
  if (scaling.kind == RopeScaling::Kind::linear) return {{"rope_type", "linear"}, {"factor", scaling.factor}};
  return {{"rope_type", "llama3"},
          {"factor", scaling.factor},
          {"low_freq_factor", scaling.low_frequency_factor},
          {"high_freq_factor", scaling.high_frequency_factor},
          {"original_max_position_embeddings", scaling.original_max_positions}};
}

Json llama_json(const ModelConfig& config) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", config.vocabulary},
          {"hidden_size", config.hidden},
          {"intermediate_size", config.intermediate},
          {"num_hidden_layers", config.layers},
          {"num_attention_heads", config.heads},
          {"num_key_value_heads", config.kv_heads},
          {"head_dim", config.head_dim},
          {"hidden_act", "silu"},
          {"max_position_embeddings", config.max_positions},
          {"rms_norm_eps", config.norm_epsilon},
          {"tie_word_embeddings", config.tied_embeddings},
          {"rope_theta", config.rope_theta},
          {"rope_scaling", scaling_json(config.rope_scaling)},
          {"attention_bias", config.attention_bias},
          {"attention_dropout", 0.0},
          {"mlp_bias", config.mlp_bias}};
}

Json gpt2_json(const ModelConfig& config) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", config.vocabulary},
          {"n_positions", config.max_positions},
          {"n_embd", config.hidden},
          {"n_layer", config.layers},
          {"n_head", config.heads},
          {"n_inner", config.intermediate},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", config.norm_epsilon},
          {"tie_word_embeddings", config.tied_embeddings},
          {"resid_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0}};
}

}  // namespace

void require_valid(const ModelConfig& config, const std::string& source) {
  const Checker check(source);
  const KeyNames keys = key_names(config.architecture);
  check.size(keys.vocabulary, config.vocabulary, kMaxVocabulary);
  check.size(keys.hidden, config.hidden, kMaxModelWidth);
  check.size(keys.layers, config.layers, kMaxModelLayers);
  check_heads(check, config, keys);
  check.size(keys.intermediate, config.intermediate, kMaxModelWidth);
  check.size(keys.max_positions, config.max_positions, kMaxPositions);
  check.number(keys.norm_epsilon, config.norm_epsilon, 1e-30, 1);
  if (config.architecture == Architecture::gpt2) {
    check_gpt2(check, config);
  } else {
    check_rope(check, config);
  }
}

ModelConfig parse_model_config(std::string_view json, const std::string& source) {
  const Json document = parse_json(json, source, kMaxValues);
  Reader reader(JsonView(document, source));
  const ModelConfig config = read_config(reader);
  reader.refuse_others();
  require_valid(config, source);
  return config;
}

std::string to_json(const ModelConfig& config) {
  const Json document = config.architecture == Architecture::gpt2 ? gpt2_json(config) : llama_json(config);
  return document.dump(2) + "\n";
}

}  // namespace lowgear::model
