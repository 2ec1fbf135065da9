#include "planning/profile/layers/layer_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "base/core/error_of.h"

namespace lowgear::profile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kClocks = 4;

/// Random times and energies at a few clocks, which need not make sense together.
StageProfile random_stages(int stages, std::mt19937& random, std::vector<OpKind> kinds) {
  std::uniform_real_distribution<double> cost(0.1, 1);
  StageProfile profile(stages);
  for (int stage = 0; stage < stages; ++stage) {
    for (const OpKind kind : kinds) {
      for (int clock = 1; clock <= kClocks; ++clock)
        profile.add(stage, kind, {100 * clock, cost(random), cost(random)});
    }
  }
  return profile;
}

void expect_same(const StageProfile& found, const StageProfile& expected) {
  ASSERT_EQ(found.stages(), expected.stages());
  ASSERT_EQ(found.ops().size(), expected.ops().size());
  for (const auto& [stage, kind, rows] : expected.ops()) {
    ASSERT_EQ(found.measurements(stage, kind).size(), rows.size());
    for (const Measurement& row : rows) {
      const Measurement& other = found.at_clock(stage, kind, row.clock_mhz);
      EXPECT_NEAR(other.time_s, row.time_s, 1e-12 * row.time_s);
      EXPECT_NEAR(other.energy_j, row.energy_j, 1e-12 * row.energy_j);
    }
  }
}

/// Layers that take 1 s and 2 J forward, twice that backward, at 100 MHz, and a head of half a layer.
StageProfile stages_with_head(const Partition& partition, double head) {
  StageProfile profile(static_cast<int>(partition.size()));
  for (int stage = 0; stage < profile.stages(); ++stage) {
    const double layers = partition[static_cast<std::size_t>(stage)] + (stage + 1 == profile.stages() ? head : 0);
    profile.add(stage, OpKind::forward, {100, layers, 2 * layers});
    profile.add(stage, OpKind::backward, {100, 2 * layers, 4 * layers});
  }
  return profile;
}

TEST(LayerProfile, OfTheSamePartitionHasTheSameFigures) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    const int stages = 1 + static_cast<int>(random() % 5);
    Partition partition;
    for (int stage = 0; stage < stages; ++stage) partition.push_back(1 + static_cast<int>(random() % 4));
    const StageProfile measured =
        random_stages(stages, random,
                      round % 2 == 0 ? std::vector{OpKind::forward, OpKind::backward}
                                     : std::vector{OpKind::forward, OpKind::input_gradient, OpKind::weight_gradient});
    expect_same(stage_profile_of(layer_profile_of(measured, partition), partition), measured);
  }
}

TEST(LayerProfile, FindsTheHeadOfTheLastStage) {
  for (const Partition& partition : {Partition{3, 3, 3}, Partition{4, 3, 2}, Partition{5, 4}}) {
    const LayerProfile layers = layer_profile_of(stages_with_head(partition, 0.5), partition);
    EXPECT_FALSE(layers.ends.has(0, OpKind::forward)) << "the embedding costs nothing here";
    EXPECT_NEAR(layers.ends.at_clock(1, OpKind::forward, 100).time_s, 0.5, 1e-12);
    EXPECT_NEAR(layers.ends.at_clock(1, OpKind::backward, 100).energy_j, 2, 1e-12);
    for (int layer = 0; layer < layers.layers.stages(); ++layer) {
      EXPECT_NEAR(layers.layers.at_clock(layer, OpKind::forward, 100).time_s, 1, 1e-12);
    }
  }
}

TEST(LayerProfile, MovesLayersAndLeavesTheHead) {
  const LayerProfile layers = layer_profile_of(stages_with_head({3, 3, 3}, 0.5), {3, 3, 3});
  expect_same(stage_profile_of(layers, {4, 4, 1}), stages_with_head({4, 4, 1}, 0.5));
}

TEST(LayerProfile, TakesAStageThatIsLighterThanItsLayersAsItIs) {
  const StageProfile lighter = stages_with_head({3, 3, 3}, -0.5);
  const LayerProfile layers = layer_profile_of(lighter, {3, 3, 3});
  EXPECT_TRUE(layers.ends.ops().empty());
  expect_same(stage_profile_of(layers, {3, 3, 3}), lighter);
}

TEST(LayerProfile, UsesTheClocksThatAllLayersOfAStageHave) {
  StageProfile measured(2);
  for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
    for (const int clock : {100, 200}) measured.add(0, kind, {clock, 1, 1});
    for (const int clock : {200, 300}) measured.add(1, kind, {clock, 1, 1});
  }
  const StageProfile moved = stage_profile_of(layer_profile_of(measured, {2, 2}), {1, 3});
  EXPECT_EQ(moved.measurements(0, OpKind::forward).size(), 2U);
  ASSERT_EQ(moved.measurements(1, OpKind::forward).size(), 1U);
  EXPECT_EQ(moved.measurements(1, OpKind::forward).front().clock_mhz, 200);
}

double costliest_s(const LayerProfile& layers, const Partition& partition) {
  const StageProfile profile = stage_profile_of(layers, partition);
  double costliest = 0;
  for (int stage = 0; stage < profile.stages(); ++stage) {
    double time_s = 0;
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      double fastest = std::numeric_limits<double>::infinity();
      for (const Measurement& row : profile.measurements(stage, kind)) fastest = std::min(fastest, row.time_s);
      if (profile.has(stage, kind)) time_s += fastest;
    }
    costliest = std::max(costliest, time_s);
  }
  return costliest;
}

/// The least over all partitions, one by one.
double least_costliest_s(const LayerProfile& layers, int stages, Partition& begun, int left) {
  if (static_cast<int>(begun.size()) + 1 == stages) {
    begun.push_back(left);
    const double cost = costliest_s(layers, begun);
    begun.pop_back();
    return cost;
  }
  double least = std::numeric_limits<double>::infinity();
  for (int count = 1; count <= left - (stages - static_cast<int>(begun.size()) - 1); ++count) {
    begun.push_back(count);
    least = std::min(least, least_costliest_s(layers, stages, begun, left - count));
    begun.pop_back();
  }
  return least;
}

TEST(BalancedPartition, IsTheBestOfAllPartitions) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    const int count = 1 + static_cast<int>(random() % 8);
    const int stages = 1 + static_cast<int>(random() % static_cast<unsigned>(count));
    // Time falls with the clock alike everywhere, so that the fastest clock of a sum is that of its parts.
    LayerProfile layers{.layers = StageProfile(count), .ends = StageProfile(2)};
    const int frozen = static_cast<int>(random() % static_cast<unsigned>(count));
    std::uniform_real_distribution<double> cost(0.1, 1);
    const auto add = [&](StageProfile& to, int place, OpKind kind) {
      const double work_s = cost(random);
      for (const int clock : {100, 200}) to.add(place, kind, {clock, work_s * 100 / clock, 1});
    };
    for (int layer = 0; layer < count; ++layer) {
      add(layers.layers, layer, OpKind::forward);
      if (layer >= frozen) add(layers.layers, layer, OpKind::backward);
    }
    add(layers.ends, 1, OpKind::forward);
    Partition begun;
    const Partition found = balanced_partition(layers, stages);
    EXPECT_EQ(layer_count(found), count);
    EXPECT_NEAR(costliest_s(layers, found), least_costliest_s(layers, stages, begun, count), 1e-12)
        << "round " << round;
  }
}

TEST(BalancedPartition, GivesStagesOfFrozenLayersMoreOfThem) {
  // Active layers take 3 s, frozen ones 1 s.
  LayerProfile layers{.layers = StageProfile(12), .ends = StageProfile(2)};
  for (int layer = 0; layer < 12; ++layer) {
    layers.layers.add(layer, OpKind::forward, {100, 1, 1});
    if (layer >= 6) layers.layers.add(layer, OpKind::backward, {100, 2, 1});
  }
  EXPECT_THAT(balanced_partition(layers, 4), ElementsAre(6, 2, 2, 2));
}

TEST(UniformPartition, GivesTheFirstStagesOneMore) {
  EXPECT_THAT(uniform_partition(10, 4), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(error_of([] { (void)uniform_partition(3, 4); }), HasSubstr("3 layers cannot be divided over 4 stages"));
}

TEST(LayerProfile, RefusesWhatDoesNotFit) {
  const StageProfile measured = stages_with_head({2, 2}, 0);
  const LayerProfile layers = layer_profile_of(measured, {2, 2});
  EXPECT_THAT(error_of([&] { (void)layer_profile_of(measured, {4}); }), HasSubstr("the partition has 1 stages"));
  EXPECT_THAT(error_of([&] { (void)layer_profile_of(measured, {4, 0}); }), HasSubstr("at least 1"));
  EXPECT_THAT(error_of([&] { (void)stage_profile_of(layers, {2, 3}); }), HasSubstr("5 layers and the model 4"));
  EXPECT_THAT(error_of([&] { (void)balanced_partition(layers, 5); }), HasSubstr("4 layers cannot be divided"));

  StageProfile half = stages_with_head({2, 2}, 0);
  half.add(1, OpKind::input_gradient, {100, 1, 1});
  EXPECT_THAT(error_of([&] { (void)layer_profile_of(half, {2, 2}); }), HasSubstr("differ in whether they have"));

  StageProfile frozen(2);
  for (const int stage : {0, 1}) frozen.add(stage, OpKind::forward, {100, 1, 1});
  frozen.add(1, OpKind::backward, {100, 1, 1});
  EXPECT_THAT(error_of([&] { (void)layer_profile_of(frozen, {2, 2}); }), HasSubstr("frozen already"));

  StageProfile apart(2);
  for (const int stage : {0, 1}) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) apart.add(stage, kind, {100 + stage, 1, 1});
  }
  EXPECT_THAT(error_of([&] {
                (void)stage_profile_of(layer_profile_of(apart, {2, 2}), {1, 3});
              }),
              HasSubstr("layers 1 to 3 have no clock in common"));
}

}  // namespace
}  // namespace lowgear::profile
