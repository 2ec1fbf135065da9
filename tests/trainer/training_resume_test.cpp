#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <ostream>
#include <string>
#include <vector>

#include "client/client.h"
#include "core/error.h"
#include "core/file.h"
#include "core/temporary_folder.h"
#include "launcher/checkpoint_manifest.h"
#include "trainer/test_models.h"
#include "trainer/thread_ranks.h"
#include "trainer/training_run.h"

namespace lowgear {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// What a run of a job left: the loss of each of its steps, and the values of each rank.
struct Outcome {
  std::int64_t first_step = 0;
  std::vector<double> losses;
  std::map<int, at::Tensor> values;
};

/// Trains, and is asked to end behind step `end_behind`.
Outcome train(const TrainConfig& config, std::int64_t end_behind = -1) {
  std::mutex mutex;
  Outcome outcome;
  run_thread_ranks(config.parallel, [&](int rank, Communicators ranks) {
    const Environment nothing = [](std::string_view) { return std::nullopt; };
    Client client({}, nothing);
    TrainingRun run(config, rank, {.device = at::kCPU, .ranks = std::move(ranks)}, client, nullptr);
    std::int64_t done = run.first_step();
    run.run([&] { return rank == 0 && done++ == end_behind; },
            [&](const StepResult& result) { outcome.losses.push_back(result.loss); });
    const std::scoped_lock lock(mutex);
    outcome.first_step = run.first_step();
    outcome.values[rank] = run.store().values().detach().clone();
  });
  return outcome;
}

TrainConfig small_job(const ParallelConfig& parallel) {
  TrainConfig config;
  config.model = tiny_llama(true);
  config.model.vocabulary = 256;
  config.model.layers = 4;
  config.parallel = parallel;
  config.microbatches = 4;
  config.sequence_length = 16;
  config.synthetic_tokens = 20'000;
  config.steps = 6;
  config.optimizer.learning_rate = 1e-2;
  config.optimizer.warmup_steps = 2;
  return config;
}

struct Case {
  ParallelConfig parallel;
  bool bf16 = false;
  bool zero1 = false;

  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << "pp" << c.parallel.pp << " dp" << c.parallel.dp << " tp" << c.parallel.tp << (c.bf16 ? " bf16" : "")
         << (c.zero1 ? " zero1" : "");
  }
};

class Resuming : public testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] static TrainConfig config() {
    TrainConfig config = small_job(GetParam().parallel);
    config.bf16 = GetParam().bf16;
    config.optimizer.zero1 = GetParam().zero1;
    return config;
  }
};

TEST_P(Resuming, GivesTheSameBitsAsGoingOn) {
  const TemporaryFolder folder;
  const Outcome straight = train(config());
  TrainConfig interrupted = config();
  interrupted.checkpoint = folder.path();
  const Outcome first = train(interrupted, 2);
  ASSERT_EQ(first.losses.size(), 3);
  EXPECT_THAT(complete_checkpoints(folder.path()), ElementsAre(3));
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
                                         Case{{.pp = 2, .dp = 2, .tp = 2}, true, true}));

TEST(ResumedTraining, GoesOnInAnotherLayout) {
  const TemporaryFolder folder;
  TrainConfig config = small_job({.pp = 4});
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

TEST(ResumedTraining, HasNothingToDoBehindTheLastStep) {
  const TemporaryFolder folder;
  TrainConfig config = small_job({});
  config.checkpoint = folder.path();
  const Outcome first = train(config);
  const Outcome second = train(config);
  EXPECT_EQ(second.first_step, 6);
  EXPECT_TRUE(second.losses.empty());
  EXPECT_TRUE(at::equal(second.values.at(0), first.values.at(0)));
}

TEST(Training, BeginsWithExportedWeights) {
  const TemporaryFolder folder;
  TrainConfig config = small_job({.pp = 2});
  config.steps = 2;
  config.export_folder = folder / "exported";
  const Outcome first = train(config);
  TrainConfig second = small_job({});
  second.weights = folder / "exported";
  second.steps = 1;
  TrainConfig random = small_job({});
  random.steps = 1;
  // One that has learned a little is better than one that has not.
  EXPECT_LT(train(second).losses.front(), first.losses.back());
  EXPECT_EQ(train(random).losses.front(), first.losses.front());
}

TEST(Training, ExportsWhenAllStepsAreDoneWhateverAskedItToEnd) {
  const TemporaryFolder folder;
  TrainConfig config = small_job({.pp = 2});
  config.export_folder = folder / "exported";
  EXPECT_EQ(train(config, config.steps - 2).losses.size(), 5);
  EXPECT_FALSE(std::filesystem::exists(folder / "exported"));
  EXPECT_EQ(train(config, config.steps - 1).losses.size(), 6);
  EXPECT_TRUE(std::filesystem::exists(folder / "exported/config.json"));
}

TEST(Training, RefusesAnExportThatCannotBeWrittenBeforeTheFirstStep) {
  const TemporaryFolder folder;
  TrainConfig config = small_job({.pp = 2});
  write_file_atomically(folder / "file", "");
  config.export_folder = folder / "file/exported";
  config.checkpoint = folder / "checkpoints";
  EXPECT_THROW(train(config), InputError);
  EXPECT_FALSE(std::filesystem::exists(folder / "checkpoints"));
}

TEST(Training, ThatDivergesKeepsTheLastGoodCheckpoint) {
  const TemporaryFolder folder;
  TrainConfig config = small_job({.pp = 2});
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
  EXPECT_FALSE(complete_checkpoints(folder.path()).empty());
}

}  // namespace
}  // namespace lowgear
