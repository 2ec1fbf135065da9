#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "training/dataset/synthetic_corpus.h"
#include "training/launcher/checkpoint_manifest.h"
#include "training/trainer/thread_training.h"

namespace lowgear::trainer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct Case {
  protocol::JobParallel parallel;
  bool bf16 = false;
  bool zero1 = false;
  double dropout = 0;

  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << "pp" << c.parallel.pp << " dp" << c.parallel.dp << " tp" << c.parallel.tp << (c.bf16 ? " bf16" : "")
         << (c.zero1 ? " zero1" : "") << (c.dropout > 0 ? " dropout" : "");
  }
};

class Resuming : public testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] static launcher::TrainConfig config() {
    launcher::TrainConfig config = small_job(GetParam().parallel);
    config.bf16 = GetParam().bf16;
    config.optimizer.zero1 = GetParam().zero1;
    config.model.attention_dropout = GetParam().dropout;
    return config;
  }
};

TEST_P(Resuming, GivesTheSameBitsAsGoingOn) {
  const TemporaryFolder folder;
  const Outcome straight = train(config());
  launcher::TrainConfig interrupted = config();
  interrupted.checkpoint = folder.path();
  const Outcome first = train(interrupted, 2);
  ASSERT_EQ(first.losses.size(), 3);
  EXPECT_THAT(launcher::complete_checkpoints(folder.path()), ElementsAre(3));
  const Outcome second = train(interrupted);
  EXPECT_EQ(second.first_step, 3);
  std::vector<double> losses = first.losses;
  losses.insert(losses.end(), second.losses.begin(), second.losses.end());
  EXPECT_EQ(losses, straight.losses);
  for (const auto& [rank, values] : straight.values) EXPECT_TRUE(at::equal(second.values.at(rank), values)) << rank;
}

INSTANTIATE_TEST_SUITE_P(Jobs, Resuming,
                         testing::Values(Case{{}}, Case{{}, true}, Case{{.pp = 2}}, Case{{.pp = 2}, true},
                                         Case{{.dp = 2}}, Case{{.dp = 2}, false, true}, Case{{.dp = 2}, true, true},
                                         Case{{.tp = 2}}, Case{{.tp = 2}, true},
                                         Case{{.pp = 2, .dp = 2, .tp = 2}, true, true},
                                         Case{{.pp = 2, .dp = 2}, false, true, 0.2}));

TEST(ResumedTraining, ContinuesInAnotherLayout) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = small_job({.pp = 4});
  const Outcome straight = train(config);
  config.checkpoint = folder.path();
  train(config, 2);
  config.parallel = {.pp = 2, .dp = 2, .tp = 1};
  config.microbatches = 2;
  config.optimizer.zero1 = true;
  const Outcome second = train(config);
  ASSERT_EQ(second.losses.size(), 3);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(second.losses[i], straight.losses[i + 3], 1e-4);
}

/// A job whose losses tell its samples apart, as its weights stay what they are.
launcher::TrainConfig still_job() {
  launcher::TrainConfig config = small_job({});
  config.microbatches = 2;
  config.steps = 10;
  config.optimizer.learning_rate = 0;
  return config;
}

/// The mean of two neighbouring losses, as one step of twice as many samples has it.
double pair(const std::vector<double>& losses, std::size_t first) { return (losses[first] + losses[first + 1]) / 2; }

TEST(ResumedTraining, ContinuesAfterTheSamplesThatWereTaken) {
  const std::vector<double> straight = train(still_job()).losses;
  launcher::TrainConfig more_microbatches = still_job();
  more_microbatches.microbatches = 4;
  launcher::TrainConfig larger_microbatches = still_job();
  larger_microbatches.microbatch_size = 2;
  launcher::TrainConfig more_replicas = still_job();
  more_replicas.parallel.dp = 2;
  for (launcher::TrainConfig config : {more_microbatches, larger_microbatches, more_replicas}) {
    const TemporaryFolder folder;
    launcher::TrainConfig begun = still_job();
    begun.checkpoint = folder.path();
    begun.checkpoint_every = 4;
    train(begun, 3);
    config.checkpoint = folder.path();
    // Also the second time, when not all steps before have taken as many samples.
    const Outcome second = train(config, 4);
    ASSERT_EQ(second.losses.size(), 1);
    EXPECT_NEAR(second.losses[0], pair(straight, 4), 1e-5);
    config.steps = 7;
    const Outcome third = train(config);
    ASSERT_EQ(third.losses.size(), 2);
    EXPECT_NEAR(third.losses[0], pair(straight, 6), 1e-5);
    EXPECT_NEAR(third.losses[1], pair(straight, 8), 1e-5);
    EXPECT_GT(std::abs(pair(straight, 4) - pair(straight, 8)), 1e-4) << "the samples' losses must differ";
  }
}

TEST(ResumedTraining, ContinuesByItsStepsWhereTheManifestDoesNotSayWhichSamplesWereTaken) {
  const std::vector<double> straight = train(still_job()).losses;
  const TemporaryFolder folder;
  launcher::TrainConfig config = still_job();
  config.checkpoint = folder.path();
  train(config, 3);
  const auto path = folder / launcher::checkpoint_folder_name(4);
  launcher::CheckpointManifest manifest = launcher::read_manifest(path);
  ASSERT_TRUE(manifest.data);
  EXPECT_EQ(manifest.data->samples, 8);
  manifest.data.reset();
  write_file_atomically(path / launcher::kManifestName, write_manifest(manifest));
  const Outcome second = train(config);
  EXPECT_EQ(second.losses, std::vector(straight.begin() + 4, straight.end()));
}

TEST(ResumedTraining, RefusesOtherData) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = still_job();
  config.checkpoint = folder.path();
  train(config, 3);
  launcher::TrainConfig shorter = config;
  shorter.sequence_length = 8;
  EXPECT_THAT(error_of([&] { train(shorter); }),
              AllOf(HasSubstr("step-00000004"), HasSubstr("trained on sequences of 16 tokens")));
  launcher::TrainConfig longer_text = config;
  longer_text.synthetic_tokens = 30'000;
  EXPECT_THAT(error_of([&] { train(longer_text); }), HasSubstr("trained on a text of 20000 tokens"));
  launcher::TrainConfig other_text = config;
  other_text.tokens = {folder / "other.bin"};
  other_text.synthetic_tokens = 0;
  dataset::write_synthetic_corpus(other_text.tokens[0], 20'000, config.seed + 1);
  EXPECT_THAT(error_of([&] { train(other_text); }), HasSubstr("trained on another text"));
  // Made-up text is what `lowgear data synthetic` writes: going on with the file is going on with the text.
  launcher::TrainConfig same_text = other_text;
  same_text.tokens = {folder / "same.bin"};
  dataset::write_synthetic_corpus(same_text.tokens[0], 20'000, config.seed);
  EXPECT_EQ(train(same_text).losses.size(), 6);
}

TEST(ResumedTraining, HasNothingToDoAfterTheLastStep) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = small_job({});
  config.checkpoint = folder.path();
  const Outcome first = train(config);
  const Outcome second = train(config);
  EXPECT_EQ(second.first_step, 6);
  EXPECT_TRUE(second.losses.empty());
  EXPECT_TRUE(at::equal(second.values.at(0), first.values.at(0)));
}

TEST(Training, BeginsWithExportedWeights) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = small_job({.pp = 2});
  config.steps = 2;
  config.export_folder = folder / "exported";
  const Outcome first = train(config);
  launcher::TrainConfig second = small_job({});
  second.weights = folder / "exported";
  second.steps = 1;
  launcher::TrainConfig random = small_job({});
  random.steps = 1;
  // One that has learned a little is better than one that has not.
  EXPECT_LT(train(second).losses.front(), first.losses.back());
  EXPECT_EQ(train(random).losses.front(), first.losses.front());
}

TEST(Training, ExportsWhenAllStepsAreDoneWhateverAskedItToEnd) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = small_job({.pp = 2});
  config.export_folder = folder / "exported";
  EXPECT_EQ(train(config, config.steps - 2).losses.size(), 5);
  EXPECT_FALSE(std::filesystem::exists(folder / "exported"));
  EXPECT_EQ(train(config, config.steps - 1).losses.size(), 6);
  EXPECT_TRUE(std::filesystem::exists(folder / "exported/config.json"));
}

TEST(Training, RefusesAnExportThatCannotBeWrittenBeforeTheFirstStep) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = small_job({.pp = 2});
  write_file_atomically(folder / "file", "");
  config.export_folder = folder / "file/exported";
  config.checkpoint = folder / "checkpoints";
  EXPECT_THROW(train(config), InputError);
  EXPECT_FALSE(std::filesystem::exists(folder / "checkpoints"));
}

TEST(Training, ThatDivergesKeepsTheLastGoodCheckpoint) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = small_job({.pp = 2});
  config.checkpoint = folder.path();
  config.checkpoint_every = 1;
  config.steps = 50;
  config.optimizer.warmup_steps = 0;
  config.optimizer.learning_rate = 1e18;
  try {
    train(config);
    FAIL();
  } catch (const Diverged& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("diverged"), HasSubstr("the last good checkpoint is"),
                                    HasSubstr(folder.path().string())));
  }
  EXPECT_FALSE(launcher::complete_checkpoints(folder.path()).empty());
}

}  // namespace
}  // namespace lowgear::trainer
