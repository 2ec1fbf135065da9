#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/temporary_folder.h"
#include "training/trainer/engine/loss_scale.h"
#include "training/trainer/thread_training.h"

namespace lowgear::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(LossScale, DoublesAfterGoodStepsAndHalvesAfterABadOne) {
  LossScale scale({.loss_scale = 8, .growth_steps = 2});
  std::vector<double> scales;
  for (const bool finite : {true, true, true, false, true, true, false, false, false, false}) {
    scale.observe(finite);
    scales.push_back(scale.scale());
  }
  EXPECT_THAT(scales, testing::ElementsAre(8, 16, 16, 8, 8, 16, 8, 4, 2, 1));
  EXPECT_FALSE(scale.exhausted());
  scale.observe(false);
  EXPECT_TRUE(scale.exhausted());
}

launcher::TrainConfig fp16_job(const protocol::JobParallel& parallel = {}, launcher::Fp16Config fp16 = {}) {
  launcher::TrainConfig config = small_job(parallel);
  config.fp16 = fp16;
  return config;
}

std::size_t skipped(const Outcome& outcome) {
  return static_cast<std::size_t>(
      std::ranges::count_if(outcome.gradient_norms, [](double norm) { return !std::isfinite(norm); }));
}

TEST(Fp16Training, HasALossLikeThatOfFp32InNumbersOfFp16) {
  const Outcome fp16 = train(fp16_job({.pp = 2}));
  const Outcome fp32 = train(small_job({.pp = 2}));
  EXPECT_EQ(skipped(fp16), 0);
  EXPECT_NE(fp16.losses.back(), fp32.losses.back());
  for (std::size_t i = 0; i < fp32.losses.size(); ++i) {
    EXPECT_NEAR(fp16.losses[i], fp32.losses[i], 2e-3 * fp32.losses[i]) << i;
    EXPECT_NEAR(fp16.gradient_norms[i], fp32.gradient_norms[i], 1e-2 * fp32.gradient_norms[i]) << i;
  }
  for (const auto& [rank, values] : fp16.values) EXPECT_TRUE(at::equal(values, values.to(at::kHalf).to(at::kFloat)));
  launcher::TrainConfig recomputing = fp16_job({.pp = 2});
  recomputing.ranks_recompute = {launcher::Recompute::attention, launcher::Recompute::full};
  EXPECT_EQ(train(recomputing).losses, fp16.losses);
}

/// Steps at such a scale overflow.
constexpr launcher::Fp16Config kTooHigh{.loss_scale = launcher::kHighestLossScale};

TEST(Fp16Training, SkipsTheSameStepsInEveryLayout) {
  launcher::TrainConfig job = fp16_job({}, kTooHigh);
  job.steps = 20;
  const Outcome expected = train(job);
  const std::size_t bad = skipped(expected);
  ASSERT_GT(bad, 2);
  ASSERT_LT(bad, 15);
  EXPECT_LT(expected.losses.back(), expected.losses.front());
  for (const protocol::JobParallel& parallel :
       {protocol::JobParallel{.pp = 4}, protocol::JobParallel{.dp = 2}, protocol::JobParallel{.tp = 2},
        protocol::JobParallel{.pp = 2, .dp = 2, .tp = 2}}) {
    SCOPED_TRACE(testing::Message() << "pp" << parallel.pp << " dp" << parallel.dp << " tp" << parallel.tp);
    launcher::TrainConfig same = job;
    same.parallel = parallel;
    same.microbatches = 4 / parallel.dp;
    same.optimizer.zero1 = parallel.dp > 1;
    const Outcome outcome = train(same);
    EXPECT_EQ(skipped(outcome), bad);
    for (std::size_t i = 0; i < outcome.gradient_norms.size(); ++i) {
      EXPECT_EQ(std::isfinite(outcome.gradient_norms[i]), std::isfinite(expected.gradient_norms[i])) << i;
    }
    if (parallel.dp * parallel.tp == 1) {
      EXPECT_EQ(outcome.losses, expected.losses);
    } else {
      EXPECT_NEAR(outcome.losses.back(), expected.losses.back(), 0.01);
    }
  }
}

TEST(Fp16Training, ChangesNothingInASkippedStep) {
  launcher::TrainConfig job = fp16_job({.pp = 2}, kTooHigh);
  job.steps = 2;
  const Outcome outcome = train(job);
  ASSERT_EQ(skipped(outcome), 2);
  job.steps = 0;
  const Outcome before = train(job);
  for (const auto& [rank, values] : before.values) EXPECT_TRUE(at::equal(outcome.values.at(rank), values)) << rank;
}

TEST(Fp16Training, ContinuesWithTheSameBits) {
  for (const protocol::JobParallel& parallel : {protocol::JobParallel{.pp = 2}, protocol::JobParallel{.dp = 2}}) {
    const TemporaryFolder folder;
    // The scale rises in the middle of each run, until steps overflow.
    launcher::TrainConfig config = fp16_job(parallel, {.loss_scale = 65536, .growth_steps = 2});
    config.optimizer.zero1 = parallel.dp > 1;
    config.steps = 40;
    const Outcome straight = train(config);
    ASSERT_GT(skipped(straight), 0);
    config.checkpoint = folder.path();
    const Outcome first = train(config, 22);
    const Outcome second = train(config);
    std::vector<double> losses = first.losses;
    losses.insert(losses.end(), second.losses.begin(), second.losses.end());
    EXPECT_EQ(losses, straight.losses);
    for (const auto& [rank, values] : straight.values) EXPECT_TRUE(at::equal(second.values.at(rank), values)) << rank;
  }
}

TEST(Fp16Training, EndsWhereTheLowestScaleOverflows) {
  launcher::TrainConfig config = fp16_job({.pp = 2}, {.loss_scale = 4, .growth_steps = 100});
  config.optimizer = {.learning_rate = 1000, .clip_norm = 0};
  config.steps = 20;
  EXPECT_THAT(error_of<std::exception>([&] { train(config); }),
              AllOf(testing::StartsWith("step "), HasSubstr("beyond fp16 even at the lowest loss scale, 1; lower "
                                                            "the learning rate, or set type: bf16")));
}

}  // namespace
}  // namespace lowgear::trainer
