#include "estimating/model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/core/error_of.h"
#include "estimating/model/config_json.h"
#include "estimating/model/known_models.h"

namespace lowgear::model {
namespace {

using ::testing::HasSubstr;

ModelConfig mixture() {
  ModelConfig config = {32000, 4096, 32, 32, 8, 128, 14336, 32768};
  config.name = "mixture";
  config.experts = ExpertShape{8, 2, 14336, 0};
  return config;
}

ModelConfig parsed(const std::string& text) { return parse_model_config(text, "config.json"); }

TEST(RequireValid, NamesTheMemberThatIsWrong) {
  const auto error_with = [](const std::function<void(ModelConfig&)>& change) {
    ModelConfig config = mixture();
    change(config);
    return error_of([&config] { require_valid(config); });
  };
  EXPECT_EQ(error_with([](auto& config) { config.layers = 0; }), "mixture: layers: 0 is not from 1 to 1024");
  EXPECT_THAT(error_with([](auto& config) { config.kv_heads = 5; }), testing::HasSubstr("kv_heads: 5 heads of keys"));
  EXPECT_THAT(error_with([](auto& config) { config.experts->experts_per_token = 9; }),
              testing::HasSubstr("experts_per_token: a token cannot use 9 of 8"));
  EXPECT_THAT(error_with([](auto& config) { config.hidden = std::int64_t{1} << 40; }), testing::HasSubstr("hidden: "));
  EXPECT_THAT(error_with([](auto& config) {
                config.experts->experts = 1 << 16;
                config.experts->intermediate = kMaxModelWidth;
                config.hidden = kMaxModelWidth;
                config.layers = kMaxModelLayers;
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
  ModelConfig config = parse_model_config(kMistral, "config.json");
  config.window = 4096;
  config.windowed.assign(32, true);
  EXPECT_EQ(windowed_layers(config, 4096, 0, 32), 0);
  EXPECT_EQ(windowed_layers(config, 4097, 0, 32), 32);
  config.windowed.assign(32, false);
  config.windowed[9] = true;
  EXPECT_EQ(windowed_layers(config, 8192, 0, 9), 0);
  EXPECT_EQ(windowed_layers(config, 8192, 8, 8), 1);
  const double full = training_flops_per_token(config, 4096);
  config.window = 2048;
  EXPECT_NEAR(full - training_flops_per_token(config, 4096), 0.25 * 12 * 4096 * 4096, 1) << "a quarter of one layer's";
  config.windowed.pop_back();
  EXPECT_THAT(error_of([&] { require_valid(config); }), testing::HasSubstr("windowed: has 31 elements"));
}

TEST(Trainable, RefusesHeadsThatCannotBeTurnedInPairs) {
  ModelConfig config = parsed(kLlama2);
  EXPECT_TRUE(trainable(config));
  config.head_dim = 33;
  EXPECT_THAT(error_of([&] { trainable(config).require(); }),
              HasSubstr("head_dim: 32 of 33 dimensions of a head cannot be turned in pairs"));
  config.head_dim = 32;
  config.rotary_share = 0.01;
  EXPECT_THAT(error_of([&] { trainable(config).require(); }), HasSubstr("0 of 32 dimensions"));
}

TEST(Verdicts, AreOfTheFirstMemberThatIsNotSupported) {
  std::string pruned = kGpt2;
  pruned.insert(pruned.find('"'), R"("pruned_heads": {"0": [1]}, )");
  const ModelConfig config = parsed(pruned);
  EXPECT_EQ(estimable(config).where.source, "config.json");
  EXPECT_EQ(estimable(config).problem, "$.pruned_heads: layers without some of their heads are not supported");
  EXPECT_EQ(trainable(config), estimable(config));
  EXPECT_TRUE(estimable(parsed(kGpt2)));
  EXPECT_TRUE(trainable(parsed(kGpt2)));
}

TEST(TrainingFlops, AreMegatronsForGpt) {
  // Korthikanti et al. 2022, appendix A: 72 l h^2 (1 + s / 6h + V / 12lh) for one token.
  const double l = 12;
  const double h = 768;
  const double s = 1024;
  const double v = 50257;
  const double expected = 72 * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
  EXPECT_NEAR(training_flops_per_token(parsed(kGpt2), 1024) / expected, 1, 1e-12);
}

TEST(TrainingFlops, AreSixForEveryWeightThatMultiplies) {
  // Llama-2-7B: all of its parameters but the embedding looked up and the 65 norms.
  const double weights = 6'738'415'616.0 - 32000.0 * 4096 - 65 * 4096.0;
  EXPECT_NEAR(training_flops_per_token(parsed(kLlama2), 4096) / (6 * weights + 12.0 * 32 * 4096 * 4096), 1, 1e-12);
}

TEST(TrainingFlops, AreTheSameWhenTheOutputMatrixIsTied) {
  ModelConfig config = parsed(kTinyLlama);
  const double untied = training_flops_per_token(config, 2048);
  config.tied_embeddings = true;
  EXPECT_EQ(training_flops_per_token(config, 2048), untied);
}

}  // namespace
}  // namespace lowgear::model
