#include "training/launcher/repartition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "estimating/model/parameters.h"
#include "planning/plan/plan_json.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/schedule.h"
#include "training/launcher/training_schedule.h"
#include "training/launcher/twelve_blocks.h"

namespace lowgear::launcher {

namespace {

/// Of a pipeline whose stages take `costs`, one after the other, and whose microbatches follow at the pace of the
/// slowest: event by event.
double simulated(const std::vector<double>& costs, int microbatches) {
  std::vector<double> free(costs.size(), 0);
  double done = 0;
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
    done = 0;
    for (std::size_t stage = 0; stage < costs.size(); ++stage) {
      done = free[stage] = std::max(free[stage], done) + costs[stage];
    }
  }
  return done;
}

std::vector<double> stage_costs(const TrainConfig& config, std::int64_t frozen,
                                const std::vector<model::LayerRange>& partition) {
  const model::LayerCosts all = flop_costs(config.model, config.sequence_length);
  std::vector<double> costs;
  for (const model::LayerRange& layers : partition) {
    double cost = layers.end == config.model.layers ? all.head : 0;
    for (std::int64_t layer = layers.begin; layer < layers.end; ++layer) {
      cost += all.layers[static_cast<std::size_t>(layer)] * (layer < frozen ? 1.0 / 3 : 1);
    }
    costs.push_back(cost);
  }
  return costs;
}

TEST(FlopOptions, TheMoveIsToThePartitionWhoseCostliestStageCostsLeast) {
  const TrainConfig config = twelve_blocks(2);
  const std::vector<model::LayerRange> now = {{0, 6}, {6, 12}};
  for (std::int64_t frozen = 1; frozen < 12; ++frozen) {
    const PartitionOptions options = flop_options(config, frozen, now);
    EXPECT_EQ(options.stay.partition, now);
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t cut = 1; cut < 12; ++cut) {
      least = std::min(least, std::ranges::max(stage_costs(config, frozen, {{0, cut}, {cut, 12}})));
    }
    const std::vector<double> moved = stage_costs(config, frozen, options.move.partition);
    EXPECT_NEAR(std::ranges::max(moved), least, 1e-9 * least);
    const double saving =
        1 - simulated(moved, config.microbatches) / simulated(stage_costs(config, frozen, now), config.microbatches);
    EXPECT_NEAR(options.saving, saving, 1e-12);
  }
}

TEST(FlopOptions, WithNothingFrozenTheMoveIsBackToTheJobsOwnPartition) {
  TrainConfig config = twelve_blocks(2);
  config.partition = "custom:0,5,12";
  const PartitionOptions options = flop_options(config, 0, std::vector<model::LayerRange>{{0, 8}, {8, 12}});
  EXPECT_EQ(options.move.partition, (std::vector<model::LayerRange>{{0, 5}, {5, 12}}));
  EXPECT_GT(options.saving, 0);
}

TEST(IsWorthMoving, OnlyForASavingThatPaysInTheStepsLeft) {
  const PartitionOptions moves{.stay = {{{0, 1}, {1, 4}}}, .move = {{{0, 2}, {2, 4}}}, .saving = 0.1};
  EXPECT_TRUE(is_worth_moving(moves, {.step_time_s = 1, .switch_time_s = 2, .steps_left = 21}));
  EXPECT_FALSE(is_worth_moving(moves, {.step_time_s = 1, .switch_time_s = 2, .steps_left = 19}));
  EXPECT_TRUE(is_worth_moving(moves, {.step_time_s = 0, .switch_time_s = 2, .steps_left = 19})) << "before any step";
  PartitionOptions small = moves;
  small.saving = 0.009;
  EXPECT_FALSE(is_worth_moving(small, {.step_time_s = 1, .switch_time_s = 0, .steps_left = 1'000'000}));
  PartitionOptions same = moves;
  same.move = same.stay;
  EXPECT_FALSE(is_worth_moving(same, {.step_time_s = 1, .switch_time_s = 0, .steps_left = 1'000'000}));
}

TEST(LayerStateBytes, AreTwelveForEachParameterOfALayer) {
  const model::ModelConfig config = twelve_blocks(1).model;
  std::int64_t elements = 0;
  for (const model::ParameterSpec& spec : parameters(config)) {
    if (spec.part == model::Part::layer) elements += model::element_count(spec.shape);
  }
  EXPECT_DOUBLE_EQ(layer_state_bytes(config, 1), 12.0 * static_cast<double>(elements) / 12);
  EXPECT_LT(layer_state_bytes(config, 2), layer_state_bytes(config, 1));
}

using testing::ElementsAre;
using testing::IsEmpty;

using Partition = std::vector<model::LayerRange>;

Partition random_partition(std::mt19937& random, std::int64_t layers, int stages) {
  std::vector<std::int64_t> inner;
  for (std::int64_t layer = 1; layer < layers; ++layer) inner.push_back(layer);
  std::ranges::shuffle(inner, random);
  inner.resize(static_cast<std::size_t>(stages - 1));
  std::ranges::sort(inner);
  inner.push_back(layers);
  Partition partition;
  for (const std::int64_t end : inner) partition.push_back({partition.empty() ? 0 : partition.back().end, end});
  return partition;
}

/// Which layers each rank has.
std::map<int, std::set<std::int64_t>> layers_by_rank(const Partition& partition, const std::vector<int>& rank_of) {
  std::map<int, std::set<std::int64_t>> layers;
  for (std::size_t stage = 0; stage < partition.size(); ++stage) {
    for (std::int64_t layer = partition[stage].begin; layer < partition[stage].end; ++layer) {
      layers[rank_of[stage]].insert(layer);
    }
  }
  return layers;
}

TEST(LayerMoves, OfTwoStages) {
  const Partition before = {{0, 3}, {3, 6}};
  const Partition after = {{0, 5}, {5, 6}};
  EXPECT_THAT(layer_moves(before, after, std::vector<int>{0, 1}), ElementsAre(LayerMove{3, 1, 0}, LayerMove{4, 1, 0}));
  EXPECT_THAT(layer_moves(before, before, std::vector<int>{0, 1}), IsEmpty());
}

TEST(LayerMoves, WithinARankMovesNothing) {
  const Partition before = {{0, 1}, {1, 2}, {2, 4}};
  const Partition after = {{0, 1}, {1, 2}, {2, 4}};
  EXPECT_THAT(layer_moves(before, after, std::vector<int>{0, 1, 0}), IsEmpty());
  const Partition shifted = {{0, 2}, {2, 3}, {3, 4}};
  EXPECT_THAT(layer_moves(before, shifted, std::vector<int>{0, 1, 0}),
              ElementsAre(LayerMove{1, 1, 0}, LayerMove{2, 0, 1}));
}

TEST(LayerMoves, CarriedOutGiveEveryRankItsNewLayersAndNoneMoves) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    const int ranks = std::uniform_int_distribution<int>(1, 5)(random);
    const int chunks = std::uniform_int_distribution<int>(1, 3)(random);
    const int stages = ranks * chunks;
    const std::int64_t layers = std::uniform_int_distribution<std::int64_t>(stages, 30)(random);
    std::vector<int> rank_of;
    for (int stage = 0; stage < stages; ++stage) rank_of.push_back(stage % ranks);
    const Partition before = random_partition(random, layers, stages);
    const Partition after = random_partition(random, layers, stages);
    const std::vector<LayerMove> moves = layer_moves(before, after, rank_of);

    std::map<int, std::set<std::int64_t>> held = layers_by_rank(before, rank_of);
    std::map<int, std::int64_t> by_rank;
    std::int64_t busiest = 0;
    for (const LayerMove& move : moves) {
      EXPECT_NE(move.from, move.to);
      EXPECT_EQ(held[move.from].erase(move.layer), 1U);
      EXPECT_TRUE(held[move.to].insert(move.layer).second);
      ++by_rank[move.from];
      ++by_rank[move.to];
    }
    for (const auto& [rank, count] : by_rank) busiest = std::max(busiest, count);
    EXPECT_EQ(held, layers_by_rank(after, rank_of));
    EXPECT_EQ(busiest_rank_moves(moves), busiest);
    EXPECT_TRUE(std::ranges::is_sorted(moves, {}, &LayerMove::layer));
  }
}

using testing::HasSubstr;

constexpr int kStages = 4;

/// Four stages of three equal layers, the last one with a head.
std::string profile_text() {
  profile::StageProfile profile(kStages);
  for (int stage = 0; stage < kStages; ++stage) {
    for (const int clock_mhz : {1400, 1200, 1000}) {
      const double slower = 1400.0 / clock_mhz;
      const double layers = stage == kStages - 1 ? 3.5 : 3;
      const double time_s = 0.01 * layers * slower;
      const double energy_j = time_s * (100 + 260 / (slower * slower * slower));
      profile.add(stage, OpKind::forward, {clock_mhz, time_s, energy_j});
      profile.add(stage, OpKind::backward, {clock_mhz, 2 * time_s, 2 * energy_j});
    }
  }
  return profile::write_profile_file({.profile = profile});
}

class PlannedJob : public testing::Test {
 protected:
  void SetUp() override {
    write_file_atomically(folder_ / "profile.csv", profile_text());
    config_ = twelve_blocks(kStages);
    config_.adapt.repartition.emplace();
    config_.adapt.repartition->automatic = true;
    config_.adapt.repartition->profile.emplace();
    config_.adapt.repartition->profile->file = folder_ / "profile.csv";
    config_.adapt.repartition->profile->blocking_power = "80";
  }

  /// Expects that ranks that train the partition compute what the plan has clocks for, in its order.
  void expect_units(const PlannedPartition& planned, std::int64_t frozen) {
    TrainConfig config = config_;
    config.partition = model::partition_text(planned.partition);
    const schedule::Schedule schedule = without_communication(training_schedule(config, frozen));
    const plan::Plan plan = plan::read_plan(planned.plan, "plan");
    ASSERT_EQ(plan.ranks.size(), schedule.ranks.size());
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      ASSERT_EQ(plan.ranks[rank].size(), schedule.ranks[rank].size()) << rank;
      for (std::size_t i = 0; i < plan.ranks[rank].size(); ++i) {
        EXPECT_EQ(plan.ranks[rank][i].kind, schedule.ranks[rank][i].op);
        EXPECT_EQ(plan.ranks[rank][i].microbatch, schedule.ranks[rank][i].microbatch);
      }
    }
  }

  TemporaryFolder folder_;
  TrainConfig config_;
};

TEST_F(PlannedJob, BeginsWithItsOwnPartitionAtItsFastestTime) {
  const WorkPlanner planner(config_);
  EXPECT_EQ(model::partition_text(planner.first().partition), "custom:0,3,6,9,12");
  expect_units(planner.first(), 0);
  const PartitionOptions options = planner.options(0, planner.first().partition);
  EXPECT_EQ(options.move.partition, options.stay.partition);
  EXPECT_NEAR(options.saving, 0, 1e-9);
}

TEST_F(PlannedJob, MovesLayersToTheFrozenStagesInTheOldTime) {
  const WorkPlanner planner(config_);
  const double old_time_s = plan::read_plan(planner.first().plan, "plan").time_s;
  for (const std::int64_t frozen : {2, 4, 6}) {
    const PartitionOptions options = planner.options(frozen, planner.first().partition);
    EXPECT_EQ(options.stay.partition, planner.first().partition);
    EXPECT_GT(options.move.partition.front().size(), 3);
    EXPECT_GT(options.saving, 0.02);
    expect_units(options.stay, frozen);
    expect_units(options.move, frozen);
    for (const PlannedPartition& planned : {options.stay, options.move}) {
      EXPECT_LE(plan::read_plan(planned.plan, "plan").time_s, old_time_s * (1 + 1e-9));
    }
    // And back.
    const PartitionOptions back = planner.options(0, options.move.partition);
    EXPECT_EQ(back.move.partition, planner.first().partition);
    EXPECT_EQ(back.move.plan, planner.first().plan);
    EXPECT_GT(back.saving, 0);
    expect_units(back.stay, 0);
  }
}

TEST_F(PlannedJob, AnAllowedSlowdownSavesMore) {
  const double fastest_j = plan::read_plan(WorkPlanner(config_).first().plan, "plan").energy_j;
  config_.adapt.repartition->profile->slowdown_pct = 10;
  EXPECT_LT(plan::read_plan(WorkPlanner(config_).first().plan, "plan").energy_j, fastest_j);
}

TEST_F(PlannedJob, RefusesWhatItCannotPlan) {
  config_.adapt.repartition->profile->blocking_power = "-1";
  EXPECT_THAT(error_of([&] { WorkPlanner planner(config_); }), HasSubstr("blocking_power"));
  config_.adapt.repartition->profile->blocking_power = "80";
  config_.parallel = {.pp = 2, .chunks = 2};
  config_.schedule = "interleaved";
  EXPECT_THAT(error_of([&] { WorkPlanner planner(config_); }), HasSubstr("every rank has one stage"));
  config_.parallel = {.pp = 3};
  config_.schedule = "1f1b";
  EXPECT_THAT(error_of([&] { WorkPlanner planner(config_); }), HasSubstr("stages"));
}

}  // namespace

}  // namespace lowgear::launcher
