#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/temporary_folder.h"
#include "training/dataset/synthetic_corpus.h"
#include "training/trainer/thread_training.h"

namespace lowgear::trainer {
namespace {

using testing::ElementsAre;
using testing::Pair;

class Evaluation : public testing::Test {
 protected:
  void SetUp() override { dataset::write_synthetic_corpus(folder_ / "held-out.bin", 3000, 77); }

  [[nodiscard]] launcher::TrainConfig job(const protocol::JobParallel& parallel = {}) const {
    launcher::TrainConfig config = small_job(parallel);
    config.evaluation.emplace();
    config.evaluation->held_out = {folder_ / "held-out.bin"};
    config.evaluation->every = 4;
    return config;
  }

  TemporaryFolder folder_;
};

TEST_F(Evaluation, IsDueEveryFewStepsAndAfterTheLast) {
  EXPECT_THAT(train(job()).held_out_losses, ElementsAre(Pair(3, testing::_), Pair(5, testing::_)));
}

TEST_F(Evaluation, ChangesNothingOfTheTraining) {
  for (const std::int64_t frozen : {0, 2}) {
    launcher::TrainConfig config = job({.pp = 2});
    config.freeze.prefixes = {{.step = 0, .blocks = frozen}};
    const Outcome evaluated = train(config);
    config.evaluation.reset();
    const Outcome plain = train(config);
    EXPECT_TRUE(plain.held_out_losses.empty());
    EXPECT_EQ(evaluated.losses, plain.losses);
    for (const auto& [rank, values] : plain.values) EXPECT_TRUE(at::equal(evaluated.values.at(rank), values)) << rank;
  }
}

TEST_F(Evaluation, IsTheLossOfTrainingOnThatText) {
  launcher::TrainConfig config = job();
  config.optimizer.learning_rate = 0;
  config.steps = 1;
  const double loss = train(config).held_out_losses.at(0);
  config.evaluation.reset();
  config.synthetic_tokens = 0;
  config.tokens = {folder_ / "held-out.bin"};
  EXPECT_NEAR(loss, train(config).losses.at(0), 1e-6);
}

TEST_F(Evaluation, OfSeveralBatchesIsTheMeanOverTheStepsOfThatText) {
  launcher::TrainConfig config = job();
  config.optimizer.learning_rate = 0;
  config.steps = 1;
  config.evaluation->batches = 3;
  const double loss = train(config).held_out_losses.at(0);
  config.evaluation.reset();
  config.synthetic_tokens = 0;
  config.tokens = {folder_ / "held-out.bin"};
  config.steps = 3;
  const std::vector<double> losses = train(config).losses;
  EXPECT_NE(losses.at(0), losses.at(1));
  EXPECT_NEAR(loss, (losses.at(0) + losses.at(1) + losses.at(2)) / 3, 1e-6);
}

TEST_F(Evaluation, IsThatOfOneProcessInEveryLayout) {
  const double expected = train(job()).held_out_losses.at(5);
  for (protocol::JobParallel parallel : {protocol::JobParallel{.pp = 2}, {.pp = 1, .dp = 2}, {.pp = 1, .tp = 2}}) {
    launcher::TrainConfig config = job(parallel);
    config.microbatches /= parallel.dp;
    EXPECT_NEAR(train(config).held_out_losses.at(5), expected, 1e-4 * expected);
  }
}

}  // namespace
}  // namespace lowgear::trainer
