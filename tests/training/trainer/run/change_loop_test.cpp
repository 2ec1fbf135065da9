#include "training/trainer/run/change_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "training/trainer/thread_ranks.h"
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

/// One rank of a job whose iterations are made up.
struct ChangedRank {
  ChangedRank(const launcher::TrainConfig& config, Communicators& ranks)
      : client({}, [](std::string_view) { return std::nullopt; }),
        part(config, at::kCPU, ranks),
        loop(config, part, client, ranks, [] { return 2.0; }) {
    const OptimizerState& state = part.optimizer().state();
    for (const at::Tensor& tensor : {state.master, state.mean, state.variance}) tensor.fill_(1);
    part.optimizer().set_steps(1);
  }

  /// Returns how many blocks it froze. Each frozen one saves a tenth of the energy.
  std::int64_t iterate(std::int64_t number, bool first_rank) {
    EXPECT_TRUE(loop.apply(number).agent_accepts);
    const std::int64_t blocks = part.store().frozen_blocks();
    EXPECT_EQ(blocks, loop.blocks_at(number));
    loop.after_update(number, 1e-3);
    if (!first_rank) return blocks;
    IterationResult result;
    result.iteration = number;
    result.time_s = 10 + 0.01 * static_cast<double>(number % 3);
    result.energy_j = 1000 - 100 * static_cast<double>(blocks) + static_cast<double>(number % 5);
    loop.after_iteration(result);
    decisions = result.decisions;
    return blocks;
  }

  client::Client client;
  TrainedPart part;
  ChangeLoop loop;
  std::vector<adapt::ChangeDecision> decisions;  ///< of the last iteration
};

/// Blocks by rank and iteration.
std::map<int, std::vector<std::int64_t>> run_iterations(const launcher::TrainConfig& config, std::int64_t iterations) {
  std::mutex mutex;
  std::map<int, std::vector<std::int64_t>> blocks;
  run_thread_ranks(config.parallel, [&](int number, Communicators ranks) {
    ChangedRank rank(config, ranks);
    rank.loop.begin(0);
    std::vector<std::int64_t> own;
    for (std::int64_t i = 0; i < iterations; ++i) own.push_back(rank.iterate(i, number == 0));
    const std::scoped_lock lock(mutex);
    blocks[number] = std::move(own);
  });
  return blocks;
}

TEST(ChangeLoop, AllRanksChangeAtOnceAndTheRecordReplaysToTheSameDecisions) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = freezing_job({.pp = 2, .dp = 2});
  config.adapt.log = folder / "adapt.jsonl";
  const auto blocks = run_iterations(config, 120);
  ASSERT_EQ(blocks.size(), 4U);
  EXPECT_THAT(blocks.at(0), Contains(1));
  EXPECT_EQ(blocks.at(0).back(), 2) << "the cap";
  for (const auto& [rank, own] : blocks) EXPECT_EQ(own, blocks.at(0)) << rank;

  const auto records = adapt::read_change_records(read_file(*config.adapt.log), "log");
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records.front().steps.size(), 119U) << "nothing is decided on the last step";
  std::vector<std::vector<adapt::ChangeDecision>> decisions;
  for (const adapt::ChangeStep& step : records.front().steps) decisions.push_back(step.decisions);
  EXPECT_EQ(replay(records.front()), decisions);
}

TEST(ChangeLoop, AsAPlaceboDecidesAndChangesNothing) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = freezing_job({.pp = 2});
  config.adapt.slowdown = launcher::OperatingPoints{.clocks_mhz = {1410, 1200}, .plans = {}};
  config.adapt.placebo = true;
  config.adapt.log = folder / "adapt.jsonl";
  for (const auto& [rank, own] : run_iterations(config, 120)) EXPECT_EQ(own, std::vector<std::int64_t>(120)) << rank;
  const std::string log = read_file(*config.adapt.log);
  EXPECT_THAT(log, HasSubstr("\"technique\":\"slowdown\""));
  EXPECT_THAT(log, HasSubstr("\"technique\":\"freezing\""));
}

TEST(ChangeLoop, ContinuesInTheLastGoodConfiguration) {
  const launcher::TrainConfig config = freezing_job({});
  launcher::TrainConfig untried = config;
  untried.adapt.freezing = false;
  int cut_off = 0;
  run_thread_ranks(config.parallel, [&](int /*number*/, Communicators ranks) {
    ChangedRank rank(config, ranks);
    rank.loop.begin(0);
    std::int64_t good = 0;
    for (std::int64_t i = 0; i < 120; ++i) {
      const std::int64_t blocks = rank.iterate(i, true);
      for (const adapt::ChangeDecision& decision : rank.decisions) {
        if (decision.action == adapt::ChangeAction::adopt) good = decision.configuration.frozen_blocks;
      }
      const auto blocks_of = [&](const launcher::TrainConfig& next) {
        ChangedRank continued(next, ranks);
        continued.loop.restore(rank.loop.save(), "checkpoint");
        continued.loop.begin(i + 1);
        (void)continued.loop.apply(i + 1);
        return continued.part.store().frozen_blocks();
      };
      // A window may have ended in an adoption that no metrics have yet.
      EXPECT_THAT(blocks_of(config), testing::AnyOf(good, good + 1)) << i;
      if (blocks > good && blocks_of(config) == good) ++cut_off;
      EXPECT_EQ(blocks_of(untried), blocks_of(config)) << "without trials it keeps what was good, too";
    }
  });
  EXPECT_GT(cut_off, 3);
}

TEST(ChangeLoop, RefusesToBeginWhereNoAgentTakesClocks) {
  launcher::TrainConfig config = small_job({});
  config.adapt.slowdown = launcher::OperatingPoints{.clocks_mhz = {1410, 1200}, .plans = {}};
  run_thread_ranks(config.parallel, [&](int /*number*/, Communicators ranks) {
    ChangedRank rank(config, ranks);
    EXPECT_THROW(rank.loop.begin(0), Error);
  });
}

}  // namespace
}  // namespace lowgear::trainer
