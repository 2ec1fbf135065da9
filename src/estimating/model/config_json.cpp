#include "estimating/model/config_json.h"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/core/formats/json.h"

namespace lowgear::model {
namespace {

/// A config.json has some fifty members; id2label and the like may have as many more.
constexpr std::size_t kMaxValues = std::size_t{1} << 16;

std::string written_scalar(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class JsonMembers final : public ConfigMembers {
 public:
  JsonMembers(JsonView object, std::string_view expected) : object_(std::move(object)) {
    if (!object_.json().is_object()) object_.fail(expected);
  }

  [[nodiscard]] std::vector<std::string> keys() const override {
    std::vector<std::string> keys;
    for (const auto& member : object_.json().items()) keys.push_back(member.key());
    return keys;
  }
  [[nodiscard]] bool has(std::string_view key) const override {
    return object_.has(key) && !object_.at(key).json().is_null();
  }
  [[nodiscard]] std::int64_t integer(std::string_view key) const override { return object_.at(key).integer(); }
  [[nodiscard]] double number(std::string_view key) const override { return object_.at(key).number(); }
  [[nodiscard]] std::string text(std::string_view key) const override { return object_.at(key).text(); }
  [[nodiscard]] bool boolean(std::string_view key) const override { return object_.at(key).boolean(); }
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const override {
    const JsonView list = object_.at(key);
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < list.size(); ++i) texts.push_back(list.at(i).text());
    return texts;
  }
  [[nodiscard]] std::unique_ptr<ConfigMembers> object(std::string_view key) const override {
    return std::make_unique<JsonMembers>(object_.at(key), "expected an object or null");
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
          {"attention_bias", config.qkv_biases},
          {"attention_dropout", 0.0},
          {"mlp_bias", config.mlp_biases}};
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

ModelConfig parse_model_config(std::string_view json, const std::string& source) {
  const Json document = parse_json(json, source, kMaxValues);
  return read_model_config(JsonMembers(JsonView(document, source), "expected an object, the config.json of a model"),
                           source);
}

ModelConfig parse_trainable_config(std::string_view json, const std::string& source) {
  ModelConfig config = parse_model_config(json, source);
  trainable(config).require();
  return config;
}

std::string to_json(const ModelConfig& config) {
  const Json document = trained_type(config) == "gpt2" ? gpt2_json(config) : llama_json(config);
  return document.dump(2) + "\n";
}

}  // namespace lowgear::model
