#include "training/trainer/measuring/activation_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "base/core/temporary_folder.h"
#include "training/trainer/thread_training.h"

namespace lowgear::trainer {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::Key;
using ::testing::SizeIs;

using ByStep = std::map<std::int64_t, std::vector<std::int64_t>>;

/// Of the small job's activations between layers, fp32.
constexpr std::int64_t kBetweenLayers = 16 * 32 * 4;

launcher::TrainConfig recomputing_job(const protocol::JobParallel& parallel) {
  launcher::TrainConfig config = small_job(parallel);
  config.recompute = true;
  return config;
}

ByStep measured(const launcher::TrainConfig& config) { return train(config).activation_bytes; }

std::vector<std::int64_t> of_one_step(const launcher::TrainConfig& config) {
  const ByStep by_step = measured(config);
  EXPECT_THAT(by_step, ElementsAre(Key(1)));
  return by_step.at(1);
}

TEST(ActivationSteps, AreTheSecondOne) {
  const std::vector<std::int64_t> bytes = of_one_step(recomputing_job({.pp = 2}));
  ASSERT_THAT(bytes, SizeIs(2));
  EXPECT_EQ(bytes[0], 3 * kBetweenLayers) << "what enters its two layers and what leaves them";
  EXPECT_GT(bytes[1], 3 * kBetweenLayers + 16 * 256 * 4) << "and the probabilities of the loss";
}

TEST(ActivationSteps, AreTheOnlyOneWhereThereIsNoOther) {
  launcher::TrainConfig config = recomputing_job({.pp = 2});
  config.steps = 1;
  const ByStep by_step = measured(config);
  ASSERT_THAT(by_step, ElementsAre(Key(0)));
  EXPECT_EQ(by_step.at(0)[0], 3 * kBetweenLayers);
}

TEST(ActivationSteps, MeasureEveryVirtualStageByItself) {
  launcher::TrainConfig config = recomputing_job({.pp = 2});
  config.schedule = "interleaved";
  config.parallel.chunks = 2;
  const std::vector<std::int64_t> bytes = of_one_step(config);
  ASSERT_THAT(bytes, SizeIs(4));
  EXPECT_EQ(bytes[0], 2 * kBetweenLayers);
  EXPECT_EQ(bytes[1], 2 * kBetweenLayers);
  EXPECT_EQ(bytes[2], 2 * kBetweenLayers);
}

TEST(ActivationSteps, MeasureTheSameOnReplicasWithAndWithoutZero) {
  const std::vector<std::int64_t> bytes = of_one_step(small_job({.pp = 2}));
  launcher::TrainConfig config = small_job({.pp = 2, .dp = 2});
  EXPECT_EQ(of_one_step(config), bytes);
  config.optimizer.zero1 = true;
  EXPECT_EQ(of_one_step(config), bytes);
}

TEST(ActivationSteps, AreRepeatedWhenMoreIsFrozen) {
  launcher::TrainConfig config = small_job({.pp = 2});
  config.model.tied_embeddings = false;
  config.freeze.prefixes = {{.step = 2, .blocks = 1}, {.step = 4, .blocks = 2}};
  const ByStep by_step = measured(config);
  ASSERT_THAT(by_step, ElementsAre(Key(1), Key(3), Key(5)));
  EXPECT_THAT(by_step.at(1), Each(Gt(0)));
  EXPECT_LT(by_step.at(3)[0], by_step.at(1)[0]);
  EXPECT_EQ(by_step.at(3)[1], by_step.at(1)[1]);
  EXPECT_EQ(by_step.at(5)[0], 0) << "a stage without a backward keeps nothing";
  EXPECT_LT(by_step.at(5)[1], by_step.at(1)[1]) << "its input needs no gradient";
}

TEST(NewestRankRecording, IsInTheLastPartThatHasTheRank) {
  const TemporaryFolder folder;
  EXPECT_EQ(newest_rank_recording(folder / "rec", 0), std::nullopt);
  std::filesystem::create_directories(folder / "rec/rank-00000");
  std::filesystem::create_directories(folder / "rec/rank-00003");
  std::filesystem::create_directories(folder / "rec/part-00001/rank-00003");
  std::filesystem::create_directories(folder / "rec/part-00002/rank-00003");
  EXPECT_EQ(newest_rank_recording(folder / "rec", 0), folder / "rec/rank-00000");
  EXPECT_EQ(newest_rank_recording(folder / "rec", 3), folder / "rec/part-00002/rank-00003");
}

}  // namespace
}  // namespace lowgear::trainer
