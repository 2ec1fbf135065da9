#include "training/trainer/run/adapting_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "training/trainer/state_job.h"
#include "training/trainer/thread_training.h"

namespace lowgear::trainer {
namespace {

using testing::Contains;
using testing::HasSubstr;

/// Freezes as soon as it may: a window is two steps, and a block of a trial one after one to settle.
launcher::TrainConfig freezing_job(const protocol::JobParallel& parallel) {
  launcher::TrainConfig config = small_job(parallel);
  config.freeze.controller.emplace();
  config.freeze.controller->options = {
      .cap = 0.5, .dwell_windows = 1, .steady_windows = 1, .steady_drift = 10, .loss_margin = 0.1};
  config.freeze.controller->window_steps = 2;
  config.freeze.controller->most_blocks = 2;
  config.adapt.freezing = true;
  config.adapt.trial.block_s = 10;
  return config;
}

/// One rank of a job whose steps are made up.
struct Adapted {
  Adapted(const launcher::TrainConfig& config, StateRank& rank)
      : client({}, [](std::string_view) { return std::nullopt; }),
        freezing(config, rank.optimizer(), rank.ranks(), [] { return 2.0; }),
        loop(config, freezing, client, rank.ranks(), rank.place().pp) {
    const OptimizerState& state = rank.optimizer().state();
    for (const at::Tensor& tensor : {state.master, state.mean, state.variance}) tensor.fill_(1);
    rank.optimizer().set_steps(1);
  }

  /// Returns how many blocks it froze. Each frozen one saves a tenth of the energy.
  std::int64_t step(std::int64_t number, bool first_rank) {
    loop.agree(number);
    EXPECT_TRUE(loop.follow({}));
    const std::int64_t blocks = freezing.blocks_at(number);
    freezing.after_step(number, 1e-3);
    if (!first_rank) return blocks;
    StepResult result;
    result.step = number;
    result.time_s = 10 + 0.01 * static_cast<double>(number % 3);
    result.energy_j = 1000 - 100 * static_cast<double>(blocks) + static_cast<double>(number % 5);
    loop.after_step(result);
    return blocks;
  }

  client::Client client;
  FreezingLoop freezing;
  AdaptingLoop loop;
};

/// Blocks by rank and step.
std::map<int, std::vector<std::int64_t>> run_steps(const launcher::TrainConfig& config, std::int64_t steps) {
  std::mutex mutex;
  std::map<int, std::vector<std::int64_t>> blocks;
  run_state_job(config, [&](StateRank& rank) {
    const int number = rank.ranks().world->rank();
    Adapted adapted(config, rank);
    adapted.loop.begin(0, {});
    std::vector<std::int64_t> own;
    for (std::int64_t step = 0; step < steps; ++step) own.push_back(adapted.step(step, number == 0));
    const std::scoped_lock lock(mutex);
    blocks[number] = std::move(own);
  });
  return blocks;
}

TEST(AdaptingLoop, AllRanksChangeAtOneStepAndTheRecordReplaysToTheSameDecisions) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = freezing_job({.pp = 2, .dp = 2});
  config.adapt.log = folder / "adapt.jsonl";
  const auto blocks = run_steps(config, 120);
  ASSERT_EQ(blocks.size(), 4U);
  EXPECT_THAT(blocks.at(0), Contains(1));
  EXPECT_EQ(blocks.at(0).back(), 2) << "the cap";
  for (const auto& [rank, own] : blocks) EXPECT_EQ(own, blocks.at(0)) << rank;

  const auto records = adapt::read_technique_records(read_file(*config.adapt.log), "log");
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records.front().steps.size(), 119U) << "nothing is decided on the last step";
  std::vector<std::vector<adapt::TechniqueDecision>> decisions;
  for (const adapt::TechniqueStep& step : records.front().steps) decisions.push_back(step.decisions);
  EXPECT_EQ(replay(records.front()), decisions);
}

TEST(AdaptingLoop, AsAPlaceboDecidesAndChangesNothing) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = freezing_job({.pp = 2});
  config.adapt.slowdown = launcher::OperatingPoints{.clocks_mhz = {1410, 1200}, .plans = {}};
  config.adapt.placebo = true;
  config.adapt.log = folder / "adapt.jsonl";
  for (const auto& [rank, own] : run_steps(config, 120)) EXPECT_EQ(own, std::vector<std::int64_t>(120)) << rank;
  const std::string log = read_file(*config.adapt.log);
  EXPECT_THAT(log, HasSubstr("\"technique\":\"slowdown\""));
  EXPECT_THAT(log, HasSubstr("\"technique\":\"freezing\""));
}

TEST(AdaptingLoop, ContinuesInTheLastGoodConfiguration) {
  const launcher::TrainConfig config = freezing_job({});
  int cut_off = 0;
  run_state_job(config, [&](StateRank& rank) {
    Adapted adapted(config, rank);
    adapted.loop.begin(0, {});
    std::int64_t good = 0;
    for (std::int64_t step = 0; step < 120; ++step) {
      const std::int64_t blocks = adapted.step(step, true);
      for (const adapt::TechniqueDecision& decision : adapted.loop.take_decisions()) {
        if (decision.change == adapt::TechniqueChange::adopt) good = decision.configuration.frozen_blocks;
      }
      Adapted continued(config, rank);
      continued.loop.restore(adapted.loop.save(), "checkpoint");
      continued.loop.begin(step + 1, {});
      continued.loop.agree(step + 1);
      // A window may have ended in an adoption that no metrics have yet.
      EXPECT_THAT(continued.freezing.blocks_at(step + 1), testing::AnyOf(good, good + 1)) << step;
      if (blocks > good && continued.freezing.blocks_at(step + 1) == good) ++cut_off;
      // Without techniques it keeps what was good, too.
      FreezingLoop alone(config, rank.optimizer(), rank.ranks(), [] { return 2.0; });
      alone.restore(adapted.loop.save(), "checkpoint");
      EXPECT_EQ(alone.blocks_at(step + 1), continued.freezing.blocks_at(step + 1));
    }
  });
  EXPECT_GT(cut_off, 3);
}

TEST(AdaptingLoop, RefusesToBeginWhereNoAgentTakesClocks) {
  launcher::TrainConfig config = small_job({});
  config.adapt.slowdown = launcher::OperatingPoints{.clocks_mhz = {1410, 1200}, .plans = {}};
  run_state_job(config, [&](StateRank& rank) {
    Adapted adapted(config, rank);
    EXPECT_THAT(error_of([&] { adapted.loop.begin(0, {}); }), testing::Not(testing::IsEmpty()));
  });
}

}  // namespace
}  // namespace lowgear::trainer
