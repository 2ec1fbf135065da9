#include "estimating/estimator/job/transformer_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "base/core/error_of.h"

namespace lowgear::estimator {
namespace {

struct PublishedCount {
  const char* name;
  std::int64_t parameters;
};

void PrintTo(const PublishedCount& published, std::ostream* out) { *out << published.name; }

class PublishedCounts : public testing::TestWithParam<PublishedCount> {};

TEST_P(PublishedCounts, AreThoseOfTheCatalogue) {
  EXPECT_EQ(parameter_count(named_transformer(GetParam().name)), GetParam().parameters);
}

// Elements of all tensors of the published weights, each once where embeddings are tied (huggingface.co, "model size"
// of the safetensors; Pythia's from table 1 of Biderman et al. 2023).
INSTANTIATE_TEST_SUITE_P(
    Weights, PublishedCounts,
    testing::Values(PublishedCount{"gpt2-small", 124'439'808}, PublishedCount{"gpt2-medium", 354'823'168},
                    PublishedCount{"gpt2-large", 774'030'080}, PublishedCount{"gpt2-xl", 1'557'611'200},
                    PublishedCount{"llama-2-7b", 6'738'415'616}, PublishedCount{"llama-2-13b", 13'015'864'320},
                    PublishedCount{"llama-2-70b", 68'976'648'192}, PublishedCount{"llama-3-8b", 8'030'261'248},
                    PublishedCount{"llama-3-70b", 70'553'706'496}, PublishedCount{"llama-3.1-405b", 405'853'388'800},
                    PublishedCount{"llama-3.2-1b", 1'235'814'400}, PublishedCount{"llama-3.2-3b", 3'212'749'824},
                    PublishedCount{"mistral-7b", 7'241'732'096}, PublishedCount{"mixtral-8x7b", 46'702'792'704},
                    PublishedCount{"mixtral-8x22b", 140'620'634'112}, PublishedCount{"qwen2-0.5b", 494'032'768},
                    PublishedCount{"qwen2-1.5b", 1'543'714'304}, PublishedCount{"qwen2-7b", 7'615'616'512},
                    PublishedCount{"qwen2-72b", 72'706'203'648}, PublishedCount{"qwen2.5-3b", 3'085'938'688},
                    PublishedCount{"qwen2.5-14b", 14'770'033'664}, PublishedCount{"qwen2.5-32b", 32'763'876'352},
                    PublishedCount{"qwen3-0.6b", 596'049'920}, PublishedCount{"qwen3-1.7b", 1'720'574'976},
                    PublishedCount{"qwen3-4b", 4'022'468'096}, PublishedCount{"qwen3-8b", 8'190'735'360},
                    PublishedCount{"qwen3-14b", 14'768'307'200}, PublishedCount{"qwen3-32b", 32'762'123'264},
                    PublishedCount{"qwen3-30b-a3b", 30'532'122'624}, PublishedCount{"qwen3-235b-a22b", 235'093'634'560},
                    PublishedCount{"bloom-560m", 559'214'592}, PublishedCount{"bloom-1b1", 1'065'314'304},
                    PublishedCount{"bloom-1b7", 1'722'408'960}, PublishedCount{"bloom-3b", 3'002'557'440},
                    PublishedCount{"bloom-7b1", 7'069'016'064}, PublishedCount{"bloom-176b", 176'247'271'424},
                    PublishedCount{"pythia-70m", 70'426'624}, PublishedCount{"pythia-160m", 162'322'944},
                    PublishedCount{"pythia-410m", 405'334'016}, PublishedCount{"pythia-1b", 1'011'781'632},
                    PublishedCount{"pythia-1.4b", 1'414'647'808}, PublishedCount{"pythia-2.8b", 2'775'208'960},
                    PublishedCount{"pythia-6.9b", 6'857'302'016}, PublishedCount{"pythia-12b", 11'846'072'320},
                    PublishedCount{"gpt-neox-20b", 20'554'567'680}));

TEST(NamedTransformer, HoldsOthersWithinThePrecisionOfWhatIsPublished) {
  const std::vector<std::pair<const char*, double>> published = {
      {"gpt3-125m", 125e6}, {"gpt3-350m", 356e6},        {"gpt3-760m", 760e6},
      {"gpt3-1.3b", 1.3e9}, {"qwen2-57b-a14b", 57.41e9}, {"gpt3-2.7b", 2.7e9},
      {"gpt3-6.7b", 6.7e9}, {"gpt3-13b", 13e9},          {"gpt3-175b", 175e9}};
  for (const auto& [name, parameters] : published) {
    EXPECT_NEAR(static_cast<double>(parameter_count(named_transformer(name))) / parameters, 1, 0.02) << name;
  }
}

TEST(NamedTransformer, MakesEveryNameItListsAndAllAreValid) {
  for (const std::string& name : transformer_names()) {
    const TransformerShape shape = named_transformer(name);
    EXPECT_EQ(shape.name, name);
    EXPECT_NO_THROW(require_valid(shape)) << name;
  }
}

TEST(NamedTransformer, DoesNotMindCaseAndSeparators) {
  EXPECT_EQ(named_transformer("Llama3_70B"), named_transformer("llama-3-70b"));
  EXPECT_EQ(named_transformer("GPT-3 175B"), named_transformer("gpt3-175b"));
}

TEST(NamedTransformer, SuggestsTheNearestName) {
  EXPECT_EQ(lowgear::error_of([] { (void)named_transformer("lama-3-70b"); }),
            "there is no model \"lama-3-70b\"; did you mean llama-3-70b?");
  EXPECT_EQ(lowgear::error_of([] { (void)named_transformer("GPT2"); }),
            "there is no model \"GPT2\"; did you mean gpt2-small or gpt2-medium or gpt2-large or gpt2-xl?");
  EXPECT_THAT(lowgear::error_of([] { (void)named_transformer(""); }), testing::HasSubstr("there are gpt2-small, "));
  EXPECT_THAT(lowgear::error_of([] { (void)named_transformer("claude"); }),
              testing::HasSubstr("there are gpt2-small, "));
}

constexpr std::string_view kLlamaConfig = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000, "hidden_size": 512,
  "intermediate_size": 1376, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 2,
  "hidden_act": "silu", "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "tie_word_embeddings": TIED})";
constexpr std::string_view kGpt2Config = R"({
  "model_type": "gpt2", "vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
  "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0, "tie_word_embeddings": TIED})";

TEST(ShapeOf, HasTheParametersAndFlopsOfWhatTheTrainerRuns) {
  for (const std::string_view config : {kLlamaConfig, kGpt2Config}) {
    for (const std::string tied : {"true", "false"}) {
      std::string text(config);
      text.replace(text.find("TIED"), 4, tied);
      const model::ModelConfig model = model::parse_model_config(text, "config.json");
      const TransformerShape shape = shape_of(model, "test");
      EXPECT_EQ(parameter_count(shape), parameter_count(model));
      EXPECT_DOUBLE_EQ(training_flops_per_token(shape, 512), training_flops_per_token(model, 512));
    }
  }
}

TEST(TrainingFlopsPerToken, CountOfTheExpertsOnlyThoseThatATokenUses) {
  // Mixtral 8x7B uses 12.9 of its 46.7 billion parameters for a token (Jiang et al. 2024), embeddings counted.
  const TransformerShape shape = named_transformer("mixtral-8x7b");
  const double looked_up = 32000.0 * 4096;
  EXPECT_NEAR((active_matrix_parameters(shape) + looked_up) / 12.9e9, 1, 0.005);
}

TEST(TrainingFlopsPerToken, AreThoseOfMegatronsFormula) {
  // Narayanan et al. 2021, without recomputation: 72 l h^2 (1 + s / 6h + V / 12 l h) a token.
  const TransformerShape shape = named_transformer("gpt3-175b");
  const double h = 12288;
  const double l = 96;
  const double expected = 72 * l * h * h * (1 + 2048 / (6 * h) + 50257 / (12 * l * h));
  EXPECT_NEAR(training_flops_per_token(shape, 2048) / expected, 1, 1e-12);
}

TEST(RequireValid, NamesTheMemberThatIsWrong) {
  const auto error_with = [](const std::function<void(TransformerShape&)>& change) {
    TransformerShape shape = named_transformer("mixtral-8x7b");
    change(shape);
    return lowgear::error_of([&shape] { require_valid(shape); });
  };
  EXPECT_EQ(error_with([](auto& shape) { shape.layers = 0; }), "mixtral-8x7b: layers: 0 is not from 1 to 1024");
  EXPECT_THAT(error_with([](auto& shape) { shape.kv_heads = 5; }), testing::HasSubstr("kv_heads: 5 heads of keys"));
  EXPECT_THAT(error_with([](auto& shape) { shape.experts->experts_per_token = 9; }),
              testing::HasSubstr("experts_per_token: a token cannot use 9 of 8"));
  EXPECT_THAT(error_with([](auto& shape) { shape.hidden = std::int64_t{1} << 40; }), testing::HasSubstr("hidden: "));
  EXPECT_THAT(error_with([](auto& shape) {
                shape.experts->experts = 1 << 16;
                shape.experts->intermediate = model::kMaxModelWidth;
                shape.hidden = model::kMaxModelWidth;
                shape.layers = model::kMaxModelLayers;
              }),
              testing::HasSubstr("more than 10^16 parameters"));
}

TEST(PairsWithinWindow, AreThoseOfACausalBand) {
  EXPECT_DOUBLE_EQ(pairs_within_window(1000, 0), 1);
  EXPECT_DOUBLE_EQ(pairs_within_window(1000, 1000), 1);
  EXPECT_DOUBLE_EQ(pairs_within_window(1000, 5000), 1);
  // S W - W^2 / 2 of S^2 / 2.
  EXPECT_DOUBLE_EQ(pairs_within_window(32768, 4096), (32768.0 * 4096 - 4096.0 * 4096 / 2) / (32768.0 * 32768 / 2));
}

TEST(WindowedLayers, AreCountedWhereTheSequenceIsLonger) {
  TransformerShape shape = named_transformer("mistral-7b");
  EXPECT_EQ(shape.window, 4096);
  EXPECT_EQ(windowed_layers(shape, 4096, 0, 32), 0);
  EXPECT_EQ(windowed_layers(shape, 4097, 0, 32), 32);
  shape.windowed.assign(32, false);
  shape.windowed[9] = true;
  EXPECT_EQ(windowed_layers(shape, 8192, 0, 9), 0);
  EXPECT_EQ(windowed_layers(shape, 8192, 8, 8), 1);
  const double full = training_flops_per_token(shape, 4096);
  shape.window = 2048;
  EXPECT_NEAR(full - training_flops_per_token(shape, 4096), 0.25 * 12 * 4096 * 4096, 1) << "a quarter of one layer's";
  shape.windowed.pop_back();
  EXPECT_THAT(lowgear::error_of([&] { require_valid(shape); }), testing::HasSubstr("windowed: says of 31 layers"));
}

TEST(NamedTransformer, KnowsSizesByTheirNamesInPapers) {
  EXPECT_EQ(named_transformer("gpt3-xl").name, "gpt3-1.3b");
  EXPECT_EQ(named_transformer("GPT-3 XL").name, "gpt3-1.3b");
  EXPECT_EQ(named_transformer("gpt3-small").name, "gpt3-125m");
  EXPECT_EQ(named_transformer("gpt3").name, "gpt3-175b");
  EXPECT_EQ(named_transformer("bloom").name, "bloom-176b");
  EXPECT_THAT(
      lowgear::error_of([] { (void)named_transformer("gpt3-xxl"); }),
      testing::AllOf(testing::HasSubstr("did you mean gpt3-125m or "), testing::Not(testing::HasSubstr("gpt2"))));
  EXPECT_THAT(lowgear::error_of([] { (void)named_transformer("llama3-9b"); }),
              testing::EndsWith("did you mean llama-3-8b?"));
}

}  // namespace
}  // namespace lowgear::estimator
