#include "planning/adapt/freezing/weight_gradient_rotation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "base/core/error.h"

namespace lowgear::adapt::freezing {
namespace {

struct RotationCase {
  std::int64_t blocks = 0;
  std::vector<std::int64_t> costs;
  double budget = 0;
};

std::vector<RotationCase> cases() {
  std::vector<RotationCase> cases;
  const std::vector<std::vector<std::int64_t>> costs = {{6144, 2048, 11264, 5632}, {3, 1, 4, 4}, {1}, {5, 100}};
  for (const std::int64_t blocks : {1, 2, 3, 12, 24, 96}) {
    for (const auto& each : costs) {
      for (const double budget : {0.01, 0.1, 0.25, 0.5, 0.77, 0.9}) cases.push_back({blocks, each, budget});
    }
  }
  return cases;
}

std::int64_t cost_of(const RotationCase& c, const WeightGradientRotation::Drops& drops) {
  std::int64_t cost = 0;
  for (const std::int64_t operation : drops.operations) {
    cost += c.costs[static_cast<std::size_t>(operation) % c.costs.size()];
  }
  return cost;
}

TEST(WeightGradientRotation, KeepsItsBudgetAndFallsShortByLessThanOneOperation) {
  for (const RotationCase& c : cases()) {
    SCOPED_TRACE(testing::Message() << c.blocks << " blocks of " << c.costs.size() << ", budget " << c.budget);
    WeightGradientRotation rotation(c.blocks, c.costs, c.budget);
    const double all = static_cast<double>(std::accumulate(c.costs.begin(), c.costs.end(), 0LL) * c.blocks);
    const auto largest = static_cast<double>(std::ranges::max(c.costs));
    double dropped = 0;
    for (int step = 1; step <= 300; ++step) {
      const auto drops = rotation.drops();
      const std::set<std::int64_t> different(drops.operations.begin(), drops.operations.end());
      EXPECT_EQ(different.size(), drops.operations.size());
      EXPECT_TRUE(std::ranges::is_sorted(drops.operations));
      EXPECT_DOUBLE_EQ(drops.share, static_cast<double>(cost_of(c, drops)) / all);
      dropped += static_cast<double>(cost_of(c, drops));
      EXPECT_LE(dropped, c.budget * all * step * (1 + 1e-9));
      EXPECT_GT(dropped, c.budget * all * step * (1 - 1e-9) - largest);
      rotation.advance();
    }
  }
}

TEST(WeightGradientRotation, LeavesOutEachOperationEquallyOften) {
  for (const RotationCase& c : cases()) {
    WeightGradientRotation rotation(c.blocks, c.costs, c.budget);
    std::vector<int> times(static_cast<std::size_t>(rotation.operations()));
    for (int step = 0; step < 300; ++step) {
      const auto drops = rotation.drops();
      for (const std::int64_t operation : drops.operations) ++times.at(static_cast<std::size_t>(operation));
      rotation.advance();
    }
    EXPECT_LE(std::ranges::max(times) - std::ranges::min(times), 1);
  }
}

/// A pipeline is as fast as its slowest stage.
TEST(WeightGradientRotation, RelievesAllStagesOfAPipeline) {
  const std::vector<std::int64_t> costs = {6144, 2048, 11264, 5632};
  constexpr int kStages = 4;
  WeightGradientRotation rotation(24, costs, 0.25);
  for (int step = 0; step < 200; ++step) {
    std::vector<double> share(kStages);
    const auto drops = rotation.drops();
    for (const std::int64_t operation : drops.operations) {
      const std::int64_t block = operation / 4;
      share[static_cast<std::size_t>(block * kStages / 24)] += static_cast<double>(costs[operation % 4]) / 25088 / 6;
    }
    EXPECT_GE(std::ranges::min(share), 0.10) << step;
    rotation.advance();
  }
}

TEST(WeightGradientRotation, ContinuesFromItsStateWithTheSameOperations) {
  WeightGradientRotation straight(24, {6144, 2048, 11264, 5632}, 0.3);
  for (int step = 0; step < 50; ++step) {
    WeightGradientRotation resumed(24, {6144, 2048, 11264, 5632}, 0.3);
    resumed.restore(straight.state());
    EXPECT_EQ(resumed.drops(), straight.drops());
    EXPECT_EQ(resumed.drops(), resumed.drops());
    straight.advance();
    resumed.advance();
    EXPECT_EQ(resumed.state(), straight.state());
  }
}

TEST(WeightGradientRotation, LeavesOutNothingWithoutABudget) {
  WeightGradientRotation rotation(4, {1, 2}, 0);
  for (int step = 0; step < 10; ++step) {
    EXPECT_TRUE(rotation.drops().operations.empty());
    rotation.advance();
  }
}

TEST(WeightGradientRotation, RefusesWhatIsNotPossible) {
  EXPECT_THROW(WeightGradientRotation(0, {1}, 0.1), InputError);
  EXPECT_THROW(WeightGradientRotation(1, {}, 0.1), InputError);
  EXPECT_THROW(WeightGradientRotation(1, {0}, 0.1), InputError);
  for (const double budget : {-0.1, 0.91, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(WeightGradientRotation(1, {1}, budget), InputError);
  }
  WeightGradientRotation rotation(2, {3}, 0.5);
  EXPECT_THROW(rotation.restore({.next = 2, .credit = 0}), InputError);
  EXPECT_THROW(rotation.restore({.next = -1, .credit = 0}), InputError);
  EXPECT_THROW(rotation.restore({.next = 0, .credit = -1}), InputError);
  EXPECT_THROW(rotation.restore({.next = 0, .credit = 7'000'000}), InputError);
}

}  // namespace
}  // namespace lowgear::adapt::freezing
