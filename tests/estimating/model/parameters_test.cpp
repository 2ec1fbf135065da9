#include "estimating/model/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "estimating/model/config_json.h"
#include "estimating/model/known_models.h"

namespace lowgear::model {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const ParameterSpec* find(const std::vector<ParameterSpec>& specs, const std::string& name) {
  const auto found = std::ranges::find(specs, name, &ParameterSpec::name);
  return found == specs.end() ? nullptr : &*found;
}

std::vector<std::string> names_in(const std::vector<ParameterSpec>& specs, Part part, std::int64_t layer) {
  std::vector<std::string> names;
  for (const ParameterSpec& spec : specs) {
    if (spec.part == part && spec.layer == layer) names.push_back(spec.name);
  }
  return names;
}

TEST(Parameters, CountThoseOfPublishedModels) {
  EXPECT_EQ(parameter_count(parse_model_config(kLlama2, "config.json")), 6'738'415'616);
  EXPECT_EQ(parameter_count(parse_model_config(kLlama31, "config.json")), 8'030'261'248);
  EXPECT_EQ(parameter_count(parse_model_config(kTinyLlama, "config.json")), 1'100'048'384);
  EXPECT_EQ(parameter_count(parse_model_config(kMistral, "config.json")), 7'248'023'552);
  EXPECT_EQ(parameter_count(parse_model_config(kMixtral, "config.json")), 46'702'792'704);
  EXPECT_EQ(parameter_count(parse_model_config(kQwen2, "config.json")), 494'032'768);
  EXPECT_EQ(parameter_count(parse_model_config(kQwen2Moe, "config.json")), 14'315'784'192);
  EXPECT_EQ(parameter_count(parse_model_config(kQwen3, "config.json")), 596'049'920);
  EXPECT_EQ(parameter_count(parse_model_config(kQwen3Moe, "config.json")), 30'532'122'624);
  EXPECT_EQ(parameter_count(parse_model_config(kPhi3, "config.json")), 3'821'079'552);
  EXPECT_EQ(parameter_count(parse_model_config(kGpt2, "config.json")), 124'439'808);
  EXPECT_EQ(parameter_count(parse_model_config(kGptNeox, "config.json")), 405'334'016);
  EXPECT_EQ(parameter_count(parse_model_config(kBloom, "config.json")), 559'214'592);
  EXPECT_EQ(parameter_count(parse_model_config(kOpt, "config.json")), 125'239'296);
  EXPECT_EQ(parameter_count(parse_model_config(kOptAfter, "config.json")), 331'196'416);
  EXPECT_EQ(parameter_count(parse_model_config(kBert, "config.json")), 109'514'298);
  EXPECT_EQ(parameter_count(parse_model_config(kT5, "config.json")), 222'903'552);
  EXPECT_EQ(parameter_count(parse_model_config(kT5Gated, "config.json")), 247'577'856);
}

TEST(Parameters, AreNamedAndShapedAsTransformersDoesForLlama) {
  const auto specs = parameters(parse_model_config(kTinyLlama, "config.json"));
  EXPECT_THAT(names_in(specs, Part::embedding, -1), ElementsAre("model.embed_tokens.weight"));
  EXPECT_THAT(names_in(specs, Part::head, -1), ElementsAre("model.norm.weight", "lm_head.weight"));
  EXPECT_THAT(names_in(specs, Part::layer, 21),
              ElementsAre("model.layers.21.input_layernorm.weight", "model.layers.21.self_attn.q_proj.weight",
                          "model.layers.21.self_attn.k_proj.weight", "model.layers.21.self_attn.v_proj.weight",
                          "model.layers.21.self_attn.o_proj.weight", "model.layers.21.post_attention_layernorm.weight",
                          "model.layers.21.mlp.gate_proj.weight", "model.layers.21.mlp.up_proj.weight",
                          "model.layers.21.mlp.down_proj.weight"));
  EXPECT_THAT(names_in(specs, Part::layer, 22), IsEmpty());
  EXPECT_THAT(find(specs, "model.embed_tokens.weight")->shape, ElementsAre(32000, 2048));
  EXPECT_THAT(find(specs, "model.layers.0.self_attn.k_proj.weight")->shape, ElementsAre(256, 2048));
  EXPECT_THAT(find(specs, "model.layers.0.mlp.gate_proj.weight")->shape, ElementsAre(5632, 2048));
  EXPECT_THAT(find(specs, "model.layers.0.mlp.down_proj.weight")->shape, ElementsAre(2048, 5632));
}

TEST(Parameters, OfLlamaTakeHeadsOfAnyWidthAndBiases) {
  ModelConfig config = parse_model_config(kTinyLlama, "config.json");
  config.head_dim = 128;
  config.qkv_biases = true;
  config.output_bias = true;
  config.mlp_biases = true;
  const auto specs = parameters(config);
  EXPECT_THAT(find(specs, "model.layers.0.self_attn.q_proj.weight")->shape, ElementsAre(4096, 2048));
  EXPECT_THAT(find(specs, "model.layers.0.self_attn.q_proj.bias")->shape, ElementsAre(4096));
  EXPECT_THAT(find(specs, "model.layers.0.self_attn.o_proj.weight")->shape, ElementsAre(2048, 4096));
  EXPECT_THAT(find(specs, "model.layers.0.self_attn.o_proj.bias")->shape, ElementsAre(2048));
  EXPECT_THAT(find(specs, "model.layers.0.mlp.up_proj.bias")->shape, ElementsAre(5632));
}

TEST(Parameters, AreNamedAndShapedAsTransformersDoesForGpt2) {
  const auto specs = parameters(parse_model_config(kGpt2, "config.json"));
  EXPECT_THAT(names_in(specs, Part::embedding, -1), ElementsAre("transformer.wte.weight", "transformer.wpe.weight"));
  EXPECT_THAT(names_in(specs, Part::head, -1), ElementsAre("transformer.ln_f.weight", "transformer.ln_f.bias"));
  EXPECT_THAT(
      names_in(specs, Part::layer, 0),
      ElementsAre("transformer.h.0.ln_1.weight", "transformer.h.0.ln_1.bias", "transformer.h.0.attn.c_attn.weight",
                  "transformer.h.0.attn.c_attn.bias", "transformer.h.0.attn.c_proj.weight",
                  "transformer.h.0.attn.c_proj.bias", "transformer.h.0.ln_2.weight", "transformer.h.0.ln_2.bias",
                  "transformer.h.0.mlp.c_fc.weight", "transformer.h.0.mlp.c_fc.bias",
                  "transformer.h.0.mlp.c_proj.weight", "transformer.h.0.mlp.c_proj.bias"));
  // Conv1D: [inputs, outputs].
  EXPECT_THAT(find(specs, "transformer.h.11.attn.c_attn.weight")->shape, ElementsAre(768, 2304));
  EXPECT_THAT(find(specs, "transformer.h.11.mlp.c_proj.weight")->shape, ElementsAre(3072, 768));
  EXPECT_THAT(find(specs, "transformer.wpe.weight")->shape, ElementsAre(1024, 768));
}

TEST(Parameters, HaveAnOutputMatrixOnlyWhenItIsNotTied) {
  ModelConfig config = parse_model_config(kTinyLlama, "config.json");
  const std::int64_t untied = parameter_count(config);
  config.tied_embeddings = true;
  EXPECT_EQ(find(parameters(config), "lm_head.weight"), nullptr);
  EXPECT_EQ(untied - parameter_count(config), 32000 * 2048);
  config = parse_model_config(kGpt2, "config.json");
  config.tied_embeddings = false;
  EXPECT_THAT(find(parameters(config), "lm_head.weight")->shape, ElementsAre(50257, 768));
}

TEST(Parameters, BeginWithThePrefixOfTheModelWithoutItsHead) {
  for (const std::string& text : kEveryFamily) {
    const ModelConfig config = parse_model_config(text, "config.json");
    for (const ParameterSpec& spec : parameters(config)) {
      EXPECT_TRUE(spec.name.starts_with(base_prefix(config)) ||
                  spec.name == family_of(config).tensors.output + ".weight" ||
                  (config.head_transform && spec.part == Part::head))
          << spec.name;
    }
  }
}

TEST(Parameters, AreAllThatAreCounted) {
  for (const std::string& text : kEveryFamily) {
    for (const bool tied : {false, true}) {
      for (const bool biases : {false, true}) {
        ModelConfig config = parse_model_config(text, "config.json");
        config.tied_embeddings = tied;
        config.qkv_biases = config.output_bias = biases;
        config.mlp_biases = biases && !config.experts;
        std::int64_t elements = 0;
        for (const ParameterSpec& spec : parameters(config)) elements += element_count(spec.shape);
        EXPECT_EQ(parameter_count(config), elements) << text;
      }
    }
  }
}

TEST(Parameters, OfTheLargestModelCanBeCounted) {
  constexpr std::int64_t kLayers = 80;  // of 7 * 2^44 weights
  const ModelConfig config = {.vocabulary = kMaxVocabulary,
                              .hidden = kMaxModelWidth,
                              .layers = kLayers,
                              .heads = kMaxModelWidth / 2,
                              .kv_heads = kMaxModelWidth / 2,
                              .head_dim = 2,
                              .intermediate = kMaxModelWidth,
                              .max_positions = kMaxPositions};
  require_valid(config);
  const double weights =
      7.0 * static_cast<double>(kMaxModelWidth) * static_cast<double>(kMaxModelWidth) * static_cast<double>(kLayers) +
      2.0 * static_cast<double>(kMaxVocabulary) * static_cast<double>(kMaxModelWidth);
  EXPECT_NEAR(static_cast<double>(parameter_count(config)) / weights, 1, 1e-6);
}

}  // namespace
}  // namespace lowgear::model
