#include "estimating/model/config_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/formats/json.h"
#include "estimating/model/known_models.h"

namespace lowgear::model {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// `text` with members replaced or added, those set to `drop` left out.
const Json kDrop = "drop this member";
std::string changed(const std::string& text, const std::vector<std::pair<std::string, Json>>& members) {
  Json json = parse_json(text, "config.json");
  for (const auto& [key, value] : members) {
    if (value == kDrop) {
      json.erase(key);
    } else {
      json[key] = value;
    }
  }
  return json.dump();
}

std::string refusal(const std::string& text) {
  return error_of([&] { (void)parse_trainable_config(text, "config.json"); });
}

ModelConfig read(const std::string& text) { return parse_trainable_config(text, "config.json"); }

TEST(TrainableConfig, ReadsLlama) {
  const ModelConfig config = read(kLlama31);
  const ModelConfig expected = {.vocabulary = 128256,
                                .hidden = 4096,
                                .layers = 32,
                                .heads = 32,
                                .kv_heads = 8,
                                .head_dim = 128,
                                .intermediate = 14336,
                                .max_positions = 131072,
                                .name = "config.json",
                                .norm_epsilon = 1e-5,
                                .rope_theta = 500000,
                                .rope_scaling = {.kind = RopeScaling::Kind::llama3,
                                                 .factor = 8,
                                                 .low_frequency_factor = 1,
                                                 .high_frequency_factor = 4,
                                                 .original_max_positions = 8192}};
  EXPECT_EQ(config, expected);
}

TEST(TrainableConfig, ReadsTheWindowOfMistral) {
  const ModelConfig config = read(kMistral);
  EXPECT_EQ(config.family, "mistral");
  EXPECT_EQ(config.kv_heads, 8);
  EXPECT_EQ(config.rope_theta, 1e6);
  EXPECT_EQ(config.window, 0);
  const ModelConfig windowed = read(changed(kMistral, {{"sliding_window", kDrop}}));
  EXPECT_EQ(windowed.window, 4096);
  EXPECT_EQ(windowed.windowed, std::vector<bool>(32, true));
}

TEST(TrainableConfig, ReadsGpt2) {
  const ModelConfig config = read(kGpt2);
  ModelConfig expected = gpt_model(768, 12, 12, 50257, 1024);
  expected.name = "config.json";
  expected.tied_embeddings = true;
  EXPECT_EQ(config, expected);
  EXPECT_EQ(read(changed(kGpt2, {{"n_inner", 1000}})).intermediate, 1000);
  EXPECT_EQ(read(changed(kGpt2, {{"n_inner", nullptr}})).intermediate, 3072);
  EXPECT_FALSE(read(changed(kGpt2, {{"tie_word_embeddings", false}})).tied_embeddings);
}

TEST(TrainableConfig, ReadsDropout) {
  EXPECT_EQ(read(changed(kGpt2, {{"attn_pdrop", kDrop}})).attention_dropout, 0.1) << "what transformers takes";
  EXPECT_EQ(read(changed(kGpt2, {{"resid_pdrop", 0.2}})).residual_dropout, 0.2);
  EXPECT_EQ(read(changed(kGpt2, {{"embd_pdrop", 0.3}})).embedding_dropout, 0.3);
}

TEST(TrainableConfig, DefaultsAsTransformersDoes) {
  const ModelConfig config = read(changed(kLlama2, {{"num_key_value_heads", kDrop},
                                                    {"rms_norm_eps", kDrop},
                                                    {"rope_theta", kDrop},
                                                    {"tie_word_embeddings", kDrop},
                                                    {"hidden_act", kDrop}}));
  EXPECT_EQ(config.kv_heads, 32);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.norm_epsilon, 1e-6);
  EXPECT_EQ(config.rope_theta, 10000);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_EQ(config.rope_scaling, RopeScaling{});
  // Heads need not fill the width.
  EXPECT_EQ(read(changed(kLlama2, {{"head_dim", 64}})).head_dim, 64);
  EXPECT_EQ(read(changed(kLlama2, {{"head_dim", 64}, {"num_attention_heads", 30}, {"num_key_value_heads", 5}})).heads,
            30);
}

TEST(TrainableConfig, ReadsRopeInAllItsForms) {
  const auto scaling = [](const Json& json) { return read(changed(kLlama2, {{"rope_scaling", json}})).rope_scaling; };
  EXPECT_EQ(scaling({{"type", "linear"}, {"factor", 2}}).kind, RopeScaling::Kind::linear);
  EXPECT_EQ(scaling({{"rope_type", "linear"}, {"type", "linear"}, {"factor", 2.5}}).factor, 2.5);
  EXPECT_EQ(scaling({{"rope_type", "default"}}), RopeScaling{});
  EXPECT_EQ(scaling({{"type", "dynamic"}, {"factor", 4}}).original_max_positions, 4096) << "the model's own";
  EXPECT_THAT(
      refusal(changed(
          kLlama2, {{"rope_scaling", {{"type", "dynamic"}, {"factor", 4}, {"original_max_position_embeddings", 8}}}})),
      HasSubstr("dynamic scaling begins at max_position_embeddings, 4096"));
  EXPECT_EQ(read(changed(kLlama2, {{"rope_theta", kDrop},
                                   {"rope_scaling", {{"type", "linear"}, {"factor", 2}, {"rope_theta", 500.0}}}}))
                .rope_theta,
            500);
  const RopeScaling yarn = scaling({{"rope_type", "yarn"}, {"factor", 4}, {"beta_fast", 16}});
  EXPECT_EQ(yarn.beta_fast, 16);
  EXPECT_EQ(yarn.beta_slow, 1);
  EXPECT_DOUBLE_EQ(yarn.attention_factor, 0.1 * std::log(4) + 1);
  // transformers 5.
  const ModelConfig config = read(changed(kLlama31, {{"rope_scaling", kDrop},
                                                     {"rope_theta", kDrop},
                                                     {"rope_parameters",
                                                      {{"rope_type", "llama3"},
                                                       {"rope_theta", 500000.0},
                                                       {"factor", 8.0},
                                                       {"low_freq_factor", 1.0},
                                                       {"high_freq_factor", 4.0},
                                                       {"original_max_position_embeddings", 8192}}}}));
  EXPECT_EQ(config, read(kLlama31));
}

TEST(TrainableConfig, RefusesRopeThatItDoesNotHave) {
  const auto llama_with = [](const std::string& key, const Json& value) {
    return refusal(changed(kLlama2, {{key, value}}));
  };
  EXPECT_THAT(llama_with("rope_scaling", {{"rope_type", "longrope"}, {"factor", 4}}),
              HasSubstr("$.rope_scaling.rope_type: RoPE type \"longrope\" is not supported"));
  EXPECT_THAT(llama_with("rope_scaling", {{"type", "su"}, {"factor", 4}}),
              HasSubstr("$.rope_scaling.type: RoPE type \"su\""));
  EXPECT_THAT(llama_with("rope_scaling", {{"type", "yarn"}, {"factor", 4}, {"beta_slow", 64}}),
              HasSubstr("$.rope_scaling.beta_slow: beta_fast 32 is below beta_slow 64"));
  EXPECT_THAT(llama_with("rope_scaling", {{"type", "linear"}}), HasSubstr("\"factor\" is missing"));
  EXPECT_THAT(llama_with("rope_scaling", {{"type", "linear"}, {"factor", 0.5}}), HasSubstr("$.rope_scaling.factor"));
  EXPECT_THAT(llama_with("rope_scaling", {{"type", "linear"}, {"rope_type", "default"}, {"factor", 2}}),
              HasSubstr("contradicts rope_type"));
  EXPECT_THAT(llama_with("rope_scaling", {{"type", "linear"}, {"factor", 2}, {"attention_factor", 2}}),
              HasSubstr("\"attention_factor\" is not known in linear scaling"));
  EXPECT_THAT(llama_with("rope_scaling", 2), HasSubstr("expected an object or null"));
  EXPECT_THAT(llama_with("rope_scaling", {{"rope_type", "llama3"},
                                          {"factor", 8},
                                          {"low_freq_factor", 4},
                                          {"high_freq_factor", 4},
                                          {"original_max_position_embeddings", 8192}}),
              HasSubstr("is not above low_freq_factor"));
  EXPECT_THAT(llama_with("rope_theta", 0), HasSubstr("$.rope_theta: 0 is not from 1"));
  EXPECT_THAT(refusal(changed(kLlama31, {{"rope_parameters", {{"rope_theta", 1e4}}}})),
              HasSubstr("$.rope_parameters: contradicts rope_scaling"));
  EXPECT_THAT(refusal(changed(kTinyLlama, {{"rope_parameters", {{"rope_theta", 2e4}}}})),
              HasSubstr("$.rope_parameters.rope_theta: contradicts"));
}

TEST(TrainableConfig, RefusesFeaturesThatTheTrainerDoesNotHave) {
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {changed(kLlama2, {{"model_type", "mamba"}}),
            "$.model_type: \"mamba\" is not supported; there are bert, bloom, gpt2"},
           {changed(kLlama2, {{"architectures", {"LlamaForSequenceClassification"}}}), "only LlamaForCausalLM"},
           {changed(kGpt2, {{"architectures", {"GPT2Model"}}}), "only GPT2LMHeadModel"},
           {changed(kLlama2, {{"hidden_act", "tanh"}}),
            "$.hidden_act: \"tanh\" is not supported in training, only silu, swish, gelu"},
           {changed(kGpt2, {{"activation_function", "tanh"}}), "$.activation_function: \"tanh\" is not supported"},
           {changed(kGpt2, {{"attn_pdrop", 1}}), "$.attn_pdrop: 1 is not from 0 to 0.99"},
           {changed(kMistral, {{"attention_bias", true}}), "\"attention_bias\" is not known"},
           {changed(kGpt2, {{"scale_attn_weights", false}}),
            "$.scale_attn_weights: \"false\" is not supported in training, only true"},
           {changed(kGpt2, {{"scale_attn_by_inverse_layer_idx", true}}), "\"true\" is not supported"},
           {changed(kGpt2, {{"reorder_and_upcast_attn", true}}), "\"true\" is not supported"},
           {changed(kBert, {{"tie_word_embeddings", false}}),
            "$.tie_word_embeddings: an output matrix of BERT that is not its embedding is not supported"},
           {changed(kLlama2, {{"quantization_config", {{"bits", 4}}}}), "quantised weights are not supported"},
           {changed(kGpt2, {{"auto_map", {{"AutoModelForCausalLM", "modeling_own.Own"}}}}),
            "$.auto_map: the model's own code may compute something else; remove it if it does not"},
           {changed(kLlama2, {{"partial_rotary_factor", 0.5}}), "\"0.5\" is not supported in training, only 1"},
           {changed(kLlama2, {{"hiden_size", 4096}}), "$.hiden_size: \"hiden_size\" is not known, and might change"},
       }) {
    EXPECT_THAT(refusal(text), HasSubstr(what));
  }
}

TEST(TrainableConfig, IsRefusedAtLineAndColumn) {
  std::string text = kLlama31;
  text.replace(text.find("\"silu\""), 6, "\"tanh\"");
  EXPECT_THAT(refusal(text), StartsWith("config.json:3:69: $.hidden_act: \"tanh\" is not supported in training"));
  text = kLlama31;
  text.replace(text.find("8.0"), 3, "0.5");
  EXPECT_THAT(refusal(text), StartsWith("config.json:7:20: $.rope_scaling.factor: 0.5 is not from 1"));
  EXPECT_THAT(refusal("{\n \"a\": \"\\\"model_type\\\":\",\n  \"model_type\": 3}"),
              StartsWith("config.json:3:3: $.model_type: expected text"));
}

TEST(TrainableConfig, TakesMembersThatChangeNothingAtTheirValue) {
  EXPECT_EQ(read(changed(kLlama2, {{"is_decoder", false}, {"pruned_heads", Json::object()}, {"of_another", nullptr}})),
            read(kLlama2));
}

TEST(TrainableConfig, RefusesContradictions) {
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {changed(kLlama2, {{"num_key_value_heads", 5}}), "$.num_key_value_heads: 5 heads of keys do not divide 32"},
           {changed(kLlama2, {{"num_key_value_heads", 64}}), "$.num_key_value_heads: 64 is not from 1 to 32"},
           {changed(kLlama2, {{"num_attention_heads", 33}}), "$.num_attention_heads: 33 heads do not divide the width"},
           {changed(kLlama2, {{"num_attention_heads", 0}}), "$.num_attention_heads: 0 is not from 1"},
           {changed(kLlama2, {{"num_attention_heads", -32}}), "$.num_attention_heads: -32 is not from 1"},
           {changed(kLlama2, {{"head_dim", 33}}),
            "$.head_dim: 32 of 33 dimensions of a head cannot be turned in pairs"},
           {changed(kGpt2, {{"n_head", 7}}), "$.n_head: 7 heads do not divide the width of 768"},
           {changed(kLlama2, {{"vocab_size", 0}}), "$.vocab_size: 0 is not from 1 to 16777216"},
           {changed(kLlama2, {{"hidden_size", -4096}}), "$.hidden_size: -4096 is not from 1"},
           {changed(kGpt2, {{"n_embd", 9223372036854775807}, {"n_head", 1}}), "$.n_embd: 9223372036854775807 is not"},
           {changed(kLlama2, {{"intermediate_size", 1e15}}), "$.intermediate_size: 1000000000000000 is not from 1"},
           {changed(kLlama2, {{"num_hidden_layers", 2000}}), "$.num_hidden_layers: 2000 is not from 1 to 1024"},
           {changed(kLlama2, {{"max_position_embeddings", 0}}), "$.max_position_embeddings: 0 is not"},
           {changed(kLlama2, {{"head_dim", 4194304}}), "heads of 4194304 are wider than"},
           {changed(kLlama2, {{"rms_norm_eps", 0}}), "$.rms_norm_eps: 0 is not from"},
           {changed(kGpt2, {{"layer_norm_epsilon", -1e-5}}), "$.layer_norm_epsilon: -1e-05 is not from"},
       }) {
    EXPECT_THAT(refusal(text), HasSubstr(what));
  }
}

TEST(TrainableConfig, RefusesWhatIsNoConfig) {
  EXPECT_THAT(refusal("{"), StartsWith("config.json:1:2: not valid JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("expected an object, the config.json of a model"));
  EXPECT_THAT(refusal("{}"), HasSubstr("\"model_type\" is missing"));
  EXPECT_THAT(refusal(R"({"model_type": 3})"), HasSubstr("$.model_type: expected text"));
  EXPECT_THAT(refusal(changed(kLlama2, {{"hidden_size", "4096"}})),
              HasSubstr("$.hidden_size: expected a whole number"));
  EXPECT_THAT(refusal(changed(kLlama2, {{"hidden_size", 4096.5}})),
              HasSubstr("$.hidden_size: expected a whole number"));
  EXPECT_THAT(refusal(changed(kLlama2, {{"hidden_size", kDrop}})), HasSubstr("\"hidden_size\" is missing"));
  EXPECT_THAT(refusal(changed(kGpt2, {{"tie_word_embeddings", 1}})), HasSubstr("expected true or false"));
}

TEST(TrainableConfig, IsReadBackAsItWasWritten) {
  for (const std::string& text : {kLlama2, kLlama31, kTinyLlama, kMistral, kGpt2}) {
    const ModelConfig config = read(text);
    EXPECT_EQ(read(to_json(config)), config) << to_json(config);
  }
  ModelConfig config = read(kTinyLlama);
  config.rope_scaling = {.kind = RopeScaling::Kind::linear, .factor = 1.1};
  config.qkv_biases = true;
  config.output_bias = true;
  config.mlp_biases = true;
  config.tied_embeddings = true;
  config.norm_epsilon = 1.0 / 3;
  EXPECT_EQ(read(to_json(config)), config) << to_json(config);
  config = read(kGpt2);
  config.intermediate = 100;
  config.tied_embeddings = false;
  EXPECT_EQ(read(to_json(config)), config) << to_json(config);
}

TEST(TrainableConfig, IsWrittenForTheClassesOfTransformers) {
  EXPECT_EQ(parse_json(to_json(read(kMistral)), "config.json")["architectures"], Json::array({"MistralForCausalLM"}));
  EXPECT_EQ(parse_json(to_json(read(kGpt2)), "config.json")["architectures"], Json::array({"GPT2LMHeadModel"}));
}

}  // namespace
}  // namespace lowgear::model
