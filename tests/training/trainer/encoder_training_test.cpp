#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/core/temporary_folder.h"
#include "training/trainer/family_models.h"
#include "training/trainer/model/norm_and_loss.h"
#include "training/trainer/run/training_data.h"
#include "training/trainer/thread_training.h"

namespace lowgear::trainer {
namespace {

constexpr std::int64_t kMask = 2;

/// Six steps of a small model of the family on synthetic text, with dropout.
launcher::TrainConfig job_of(const std::string& family, const protocol::JobParallel& parallel = {}) {
  launcher::TrainConfig config = small_job(parallel);
  config.model = std::ranges::find(family_models(), family, &FamilyModel::name)->read();
  config.model.vocabulary = 256;
  if (is_masked_language_model(config.model)) config.mask_token = kMask;
  return config;
}

class EncoderTraining : public testing::TestWithParam<std::string> {};

TEST_P(EncoderTraining, HasTheSameLossesInAPipelineAndAfterAResumption) {
  const TemporaryFolder folder;
  const Outcome straight = train(job_of(GetParam()));
  EXPECT_LT(straight.losses.back(), straight.losses.front());
  EXPECT_EQ(train(job_of(GetParam(), {.pp = 4})).losses, straight.losses);
  launcher::TrainConfig interrupted = job_of(GetParam(), {.pp = 2});
  interrupted.checkpoint = folder.path();
  std::vector<double> losses = train(interrupted, 2).losses;
  const Outcome second = train(interrupted);
  EXPECT_EQ(second.first_step, 3);
  losses.insert(losses.end(), second.losses.begin(), second.losses.end());
  EXPECT_EQ(losses, straight.losses);
}

TEST_P(EncoderTraining, HasNearlyTheSameLossesOnReplicasAndRanksThatShareLayers) {
  const Outcome expected = train(job_of(GetParam()));
  for (const protocol::JobParallel& parallel : {protocol::JobParallel{.dp = 2}, protocol::JobParallel{.tp = 2}}) {
    launcher::TrainConfig config = job_of(GetParam(), parallel);
    config.microbatches = 4 / parallel.dp;
    const Outcome outcome = train(config);
    for (std::size_t i = 0; i < expected.losses.size(); ++i) {
      EXPECT_NEAR(outcome.losses[i], expected.losses[i], 1e-4) << parallel.dp << " step " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EncoderTraining, testing::Values("bert", "t5", "t5_gated"),
                         [](const auto& of) { return of.param; });

at::Tensor joined(const std::vector<Microbatch>& microbatches, at::Tensor Microbatch::*part) {
  std::vector<at::Tensor> parts;
  for (const Microbatch& microbatch : microbatches) parts.push_back(microbatch.*part);
  return at::cat(parts);
}

TEST(EncoderTrainingData, MasksTokensAlikeInEveryLayout) {
  const launcher::TrainConfig config = job_of("bert");
  const TrainingData data(config);
  const StepBatch whole = data.batch(1, 0, at::kCPU);
  const at::Tensor ids = joined(whole.microbatches, &Microbatch::ids);
  const at::Tensor targets = joined(whole.microbatches, &Microbatch::targets);
  EXPECT_GT(ids.eq(kMask).logical_and(targets.ne(kNoTarget)).sum().item<std::int64_t>(), 0);
  EXPECT_EQ(whole.counted_tokens, targets.ne(kNoTarget).sum().item<std::int64_t>());
  launcher::TrainConfig halved = job_of("bert", {.dp = 2});
  halved.microbatches = 2;
  const TrainingData of_replicas(halved);
  std::vector<Microbatch> both;
  for (const int replica : {0, 1}) {
    const StepBatch part = of_replicas.batch(1, replica, at::kCPU);
    EXPECT_EQ(part.counted_tokens, whole.counted_tokens);
    both.insert(both.end(), part.microbatches.begin(), part.microbatches.end());
  }
  EXPECT_TRUE(at::equal(joined(both, &Microbatch::ids), ids));
  EXPECT_TRUE(at::equal(joined(both, &Microbatch::targets), targets));
}

TEST(EncoderTrainingData, LetsTheDecoderContinueWhatTheEncoderReads) {
  launcher::TrainConfig config = job_of("t5");
  config.model.start_token = 9;
  const std::int64_t length = config.sequence_length;
  const std::vector<Microbatch> microbatches = TrainingData(config).batch(1, 0, at::kCPU).microbatches;
  launcher::TrainConfig plain = small_job({});
  plain.sequence_length = 2 * length;
  const at::Tensor text = joined(TrainingData(plain).batch(1, 0, at::kCPU).microbatches, &Microbatch::ids);
  const at::Tensor targets = text.narrow(1, length, length);
  EXPECT_TRUE(at::equal(joined(microbatches, &Microbatch::encoder_ids), text.narrow(1, 0, length)));
  EXPECT_TRUE(at::equal(joined(microbatches, &Microbatch::targets), targets));
  const at::Tensor ids = joined(microbatches, &Microbatch::ids);
  EXPECT_TRUE(at::equal(ids.narrow(1, 1, length - 1), targets.narrow(1, 0, length - 1)));
  EXPECT_TRUE(ids.select(1, 0).eq(9).all().item<bool>());
}

}  // namespace
}  // namespace lowgear::trainer
