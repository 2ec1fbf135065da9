#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/core/temporary_folder.h"
#include "training/dataset/synthetic_corpus.h"
#include "training/trainer/test_models.h"
#include "training/trainer/thread_training.h"

namespace lowgear::trainer {
namespace {

using Switches = std::vector<launcher::RepartitionConfig::Switch>;

launcher::RepartitionConfig scheduled(Switches switches) {
  launcher::RepartitionConfig config;
  config.schedule = std::move(switches);
  return config;
}

/// So many are left that moving pays, however slow this machine is at present.
constexpr std::int64_t kManySteps = 1'000'000;

launcher::RepartitionConfig automatic() {
  launcher::RepartitionConfig config;
  config.automatic = true;
  return config;
}

struct SwitchCase {
  protocol::JobParallel parallel;
  Switches switches;
  std::string schedule = "1f1b";
  bool zero1 = false;
  bool bf16 = false;

  friend void PrintTo(const SwitchCase& c, std::ostream* out) {
    *out << c.schedule << " pp" << c.parallel.pp << " dp" << c.parallel.dp << " tp" << c.parallel.tp
         << (c.zero1 ? " zero1" : "") << (c.bf16 ? " bf16" : "");
  }
};

class Repartition : public testing::TestWithParam<SwitchCase> {
 protected:
  [[nodiscard]] static launcher::TrainConfig job(bool switches) {
    launcher::TrainConfig config = small_job(GetParam().parallel);
    config.model.layers = 6;
    config.schedule = GetParam().schedule;
    config.optimizer.zero1 = GetParam().zero1;
    config.bf16 = GetParam().bf16;
    if (switches) config.adapt.repartition = scheduled(GetParam().switches);
    return config;
  }
  static void expect_same_training(const Outcome& outcome, const Outcome& expected) {
    EXPECT_EQ(outcome.losses, expected.losses);
    EXPECT_EQ(outcome.gradient_norms, expected.gradient_norms);
    EXPECT_EQ(outcome.frozen, expected.frozen);
    ASSERT_EQ(outcome.weights.size(), expected.weights.size());
    for (const auto& [name, weight] : expected.weights)
      EXPECT_TRUE(at::equal(outcome.weights.at(name), weight)) << name;
  }
};

TEST_P(Repartition, TrainsWithTheSameBitsAsWithout) {
  const Outcome expected = train(job(false));
  const Outcome outcome = train(job(true));
  expect_same_training(outcome, expected);
  ASSERT_EQ(outcome.moved_bytes.size(), GetParam().switches.size());
  for (const auto& entry : GetParam().switches) {
    EXPECT_GT(outcome.moved_bytes.at(entry.step), 0);
    EXPECT_EQ(outcome.partitions.at(static_cast<std::size_t>(entry.step)), entry.partition);
  }
}

TEST_P(Repartition, TrainsWithTheSameBitsAsWithoutWhileThePrefixChanges) {
  // In the same step as the layers move, and in others.
  const std::vector<launcher::FreezeConfig::Prefix> prefixes = {{0, 1}, {2, 3}, {3, 5}, {4, 0}};
  launcher::TrainConfig plain = job(false);
  plain.freeze.prefixes = prefixes;
  launcher::TrainConfig switching = job(true);
  switching.freeze.prefixes = prefixes;
  expect_same_training(train(switching), train(plain));
}

TEST_P(Repartition, ResumesWithTheSameBits) {
  const Outcome straight = train(job(true));
  for (const std::int64_t last : {0, 1, 2, 4}) {
    SCOPED_TRACE("interrupted after step " + std::to_string(last));
    const TemporaryFolder folder;
    launcher::TrainConfig interrupted = job(true);
    interrupted.checkpoint = folder.path();
    const Outcome first = train(interrupted, last);
    const Outcome second = train(interrupted);
    EXPECT_EQ(second.first_step, last + 1);
    std::vector<double> losses = first.losses;
    losses.insert(losses.end(), second.losses.begin(), second.losses.end());
    EXPECT_EQ(losses, straight.losses);
    std::vector<std::string> partitions = first.partitions;
    partitions.insert(partitions.end(), second.partitions.begin(), second.partitions.end());
    EXPECT_EQ(partitions, straight.partitions);
    for (const auto& [rank, values] : straight.values) EXPECT_TRUE(at::equal(second.values.at(rank), values)) << rank;
  }
}

Switches of_two() { return {{1, "custom:0,5,6"}, {2, "custom:0,1,6"}, {4, "custom:0,2,6"}}; }
/// The second switch moves layers between ranks that are no neighbours, and all of the middle stage.
Switches of_three() { return {{1, "custom:0,4,5,6"}, {2, "custom:0,1,2,6"}, {4, "custom:0,2,5,6"}}; }

INSTANTIATE_TEST_SUITE_P(
    Jobs, Repartition,
    testing::Values(SwitchCase{{.pp = 2}, of_two()}, SwitchCase{{.pp = 2}, of_two(), "zb-h1"},
                    SwitchCase{{.pp = 2}, of_two(), "gpipe", false, true}, SwitchCase{{.pp = 3}, of_three()},
                    SwitchCase{
                        {.pp = 2, .chunks = 2}, {{1, "custom:0,1,2,3,6"}, {3, "custom:0,3,4,5,6"}}, "interleaved"},
                    SwitchCase{{.pp = 2, .dp = 2}, of_two()}, SwitchCase{{.pp = 2, .dp = 2}, of_two(), "1f1b", true},
                    SwitchCase{{.pp = 2, .dp = 2}, of_two(), "1f1b", true, true},
                    SwitchCase{{.pp = 2, .tp = 2}, of_two()},
                    SwitchCase{{.pp = 3, .dp = 2, .tp = 2}, of_three(), "1f1b", true, true}));

TEST(Repartitioning, MovesAnUntiedModelAndOneWithBiases) {
  for (const bool llama : {true, false}) {
    launcher::TrainConfig config = small_job({.pp = 2});
    config.model = llama ? tiny_llama(false) : tiny_gpt2();
    config.model.vocabulary = 256;
    config.model.layers = 4;
    const Outcome expected = train(config);
    config.adapt.repartition = scheduled({{2, "custom:0,3,4"}});
    const Outcome outcome = train(config);
    EXPECT_EQ(outcome.losses, expected.losses);
  }
}

TEST(Repartitioning, SendsValuesAndMomentsOfTheMovedLayersAlone) {
  launcher::TrainConfig config = small_job({.pp = 2});
  config.adapt.repartition = scheduled({{2, "custom:0,3,4"}});
  const Outcome outcome = train(config);
  const launcher::TrainConfig& c = config;
  const std::int64_t kv = c.model.kv_heads * c.model.head_dim;
  const std::int64_t layer = 2 * c.model.hidden * c.model.hidden + 2 * kv * c.model.hidden +
                             3 * c.model.hidden * c.model.intermediate + 2 * c.model.hidden;
  EXPECT_EQ(outcome.moved_bytes.at(2), 12.0 * static_cast<double>(layer));
}

/// What is measured between steps, and what decides by it, sees the stages as they are.
TEST(Repartitioning, HeldOutLossesAndTheFreezingControllerFollow) {
  const TemporaryFolder folder;
  dataset::write_synthetic_corpus(folder / "held-out.bin", 3000, 77);
  launcher::TrainConfig config = small_job({.pp = 2});
  config.model.layers = 6;
  config.steps = kManySteps;
  config.evaluation.emplace();
  config.evaluation->held_out = {folder / "held-out.bin"};
  config.evaluation->every = 1;
  launcher::FreezeControllerConfig controller;
  controller.held_out = {folder / "held-out.bin"};
  controller.options = {.cap = 0.75, .dwell_windows = 1, .steady_windows = 1, .steady_drift = 10, .loss_margin = 0.5};
  controller.window_steps = 1;
  controller.most_blocks = 4;
  config.freeze.controller = controller;
  constexpr std::int64_t kLast = 11;
  const Outcome expected = train(config, kLast);
  EXPECT_GT(expected.frozen.back(), 0) << "nothing was frozen";
  for (const auto& repartition : {automatic(), scheduled({{3, "custom:0,5,6"}, {6, "custom:0,1,6"}})}) {
    config.adapt.repartition = repartition;
    const Outcome outcome = train(config, kLast);
    EXPECT_FALSE(outcome.moved_bytes.empty());
    EXPECT_EQ(outcome.losses, expected.losses);
    EXPECT_EQ(outcome.held_out_losses, expected.held_out_losses);
    EXPECT_EQ(outcome.frozen, expected.frozen);
  }
}

TEST(Repartitioning, AutomaticallyFollowsTheFrozenBlocks) {
  launcher::TrainConfig config = small_job({.pp = 2});
  config.model.vocabulary = 256;
  config.model.layers = 12;
  config.steps = kManySteps;
  config.freeze.prefixes = {{1, 6}, {4, 0}};
  constexpr std::int64_t kLast = 5;
  const Outcome expected = train(config, kLast);
  config.adapt.repartition = automatic();
  const Outcome outcome = train(config, kLast);
  EXPECT_EQ(outcome.losses, expected.losses);
  EXPECT_EQ(outcome.partitions.at(0), "custom:0,6,12");
  EXPECT_NE(outcome.partitions.at(1), "custom:0,6,12");
  EXPECT_EQ(outcome.partitions.at(2), outcome.partitions.at(1));
  // Unfrozen: its own again, unless that would not save anything.
  EXPECT_EQ(outcome.partitions.at(5), "custom:0,6,12");

  const TemporaryFolder folder;
  config.checkpoint = folder.path();
  const Outcome first = train(config, 2);
  const Outcome second = train(config, kLast);
  EXPECT_EQ(second.partitions.front(), outcome.partitions.at(3));
  EXPECT_TRUE(second.moved_bytes.empty() || !second.moved_bytes.contains(3)) << "it moved again";
}

}  // namespace
}  // namespace lowgear::trainer
