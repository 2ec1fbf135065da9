#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "base/core/temporary_folder.h"
#include "training/trainer/test_models.h"
#include "training/trainer/thread_job.h"
#include "training/trainer/thread_training.h"

namespace lowgear::trainer {
namespace {

constexpr Fp8Blocks kInner{.begin = 1, .end = 7, .on = true};

ThreadJob fp8_job(const std::string& schedule, int pp) {
  return {.config = tiny_llama(), .schedule = schedule, .pp = pp, .fp8 = kInner};
}

TEST(Fp8Iteration, HasTheSameBitsInEverySchedule) {
  const ThreadJobResult expected = run_iteration(fp8_job("gpipe", 1));
  for (const std::string schedule : {"1f1b", "zb-h1"}) {
    SCOPED_TRACE(schedule);
    expect_equal(run_iteration(fp8_job(schedule, 4)), expected);
  }
  ThreadJob recomputing = fp8_job("1f1b", 2);
  for (const launcher::Recompute recompute : {launcher::Recompute::attention, launcher::Recompute::full}) {
    recomputing.recompute = recompute;
    expect_equal(run_iteration(recomputing), expected);
  }
  ThreadJob plain = fp8_job("gpipe", 1);
  plain.fp8.reset();
  EXPECT_NE(run_iteration(plain).loss, expected.loss) << "it is not in fp8";
}

double norm_difference(const at::Tensor& a, const at::Tensor& b) { return ((a - b).norm() / b.norm()).item<double>(); }

TEST(Fp8Iteration, IsCloseToFp32) {
  ThreadJob plain = fp8_job("1f1b", 2);
  plain.fp8.reset();
  const ThreadJobResult expected = run_iteration(plain);
  for (const int tp : {1, 2}) {
    ThreadJob job = fp8_job("1f1b", 2);
    job.tp = tp;
    const ThreadJobResult result = run_iteration(job);
    EXPECT_NEAR(result.loss, expected.loss, 1e-3 * expected.loss);
    for (const auto& [name, gradient] : expected.gradients) {
      EXPECT_LT(norm_difference(result.gradients.at(name), gradient), 0.15) << name << " tp " << tp;
    }
  }
}

TEST(Fp8Iteration, WorksOnBiasesAndTiedEmbeddings) {
  ThreadJob job = fp8_job("zb-h1", 2);
  job.config = tiny_gpt2();
  const ThreadJobResult result = run_iteration(job);
  job.fp8.reset();
  const ThreadJobResult expected = run_iteration(job);
  EXPECT_NEAR(result.loss, expected.loss, 1e-3 * expected.loss);
  for (const auto& [name, gradient] : expected.gradients) {
    EXPECT_LT(norm_difference(result.gradients.at(name), gradient), 0.15) << name;
  }
}

TEST(Fp8Iteration, HasTheSameBitsWithFrozenBlocks) {
  const ThreadJobResult all = run_iteration(fp8_job("1f1b", 2));
  ThreadJob job = fp8_job("1f1b", 2);
  job.frozen_blocks = 3;
  const ThreadJobResult frozen = run_iteration(job);
  EXPECT_EQ(frozen.loss, all.loss);
  EXPECT_LT(frozen.gradients.size(), all.gradients.size());
  for (const auto& [name, gradient] : frozen.gradients)
    EXPECT_TRUE(at::equal(gradient, all.gradients.at(name))) << name;
}

launcher::TrainConfig fp8_training(const protocol::JobParallel& parallel, bool fp8 = true) {
  launcher::TrainConfig config = small_job(parallel);
  config.bf16 = true;
  if (fp8) config.fp8.emplace().emulate = true;
  return config;
}

TEST(Fp8Training, HasALossLikeThatOfBf16) {
  launcher::TrainConfig config = fp8_training({});
  config.steps = 20;
  const std::vector<double> fp8 = train(config).losses;
  config.fp8.reset();
  const std::vector<double> bf16 = train(config).losses;
  EXPECT_LT(fp8.back(), 0.9 * fp8.front());
  EXPECT_NE(fp8.back(), bf16.back());
  // Single steps part more where a loss jumps.
  const double sum = std::accumulate(bf16.begin(), bf16.end(), 0.0);
  EXPECT_NEAR(std::accumulate(fp8.begin(), fp8.end(), 0.0), sum, 0.01 * sum);
}

TEST(Fp8Training, ContinuesWithTheSameBits) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = fp8_training({.pp = 2});
  const Outcome straight = train(config);
  config.checkpoint = folder.path();
  const Outcome first = train(config, 2);
  const Outcome second = train(config);
  std::vector<double> losses = first.losses;
  losses.insert(losses.end(), second.losses.begin(), second.losses.end());
  EXPECT_EQ(losses, straight.losses);
}

TEST(Fp8Training, LeavesNoTraceOfAProbeThatKeepsBf16) {
  // No loss is so low that it would take fp8, however long either takes.
  for (const protocol::JobParallel& parallel : {protocol::JobParallel{}, protocol::JobParallel{.pp = 2, .dp = 2}}) {
    launcher::TrainConfig config = fp8_training(parallel);
    config.optimizer.zero1 = parallel.dp > 1;
    config.fp8->probe = launcher::PrecisionProbeConfig{.pairs = 2, .block_s = 0.001, .loss_margin_pct = -100};
    const Outcome probed = train(config);
    config.fp8.reset();
    const Outcome plain = train(config);
    EXPECT_EQ(probed.losses, plain.losses);
    for (const auto& [rank, values] : plain.values) EXPECT_TRUE(at::equal(probed.values.at(rank), values)) << rank;
  }
}

TEST(Fp8Training, TakesTurnsWithBf16AtCheckpoints) {
  const Outcome straight = train(fp8_training({.pp = 2}, false));
  const TemporaryFolder folder;
  std::vector<double> losses;
  for (const auto& [fp8, last] : {std::pair(false, 1), std::pair(true, 3), std::pair(false, 5)}) {
    launcher::TrainConfig config = fp8_training({.pp = 2}, fp8);
    config.checkpoint = folder.path();
    const Outcome part = train(config, last);
    ASSERT_EQ(part.first_step, static_cast<std::int64_t>(losses.size()));
    losses.insert(losses.end(), part.losses.begin(), part.losses.end());
  }
  ASSERT_EQ(losses.size(), straight.losses.size());
  EXPECT_EQ(losses[1], straight.losses[1]);
  EXPECT_NE(losses[2], straight.losses[2]) << "the third step is in fp8";
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], straight.losses[i], 0.01 * losses[i]) << i;
}

}  // namespace
}  // namespace lowgear::trainer
