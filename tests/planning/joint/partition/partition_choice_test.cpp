#include "planning/joint/partition/partition_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "base/core/error_of.h"
#include "planning/joint/orders/order_search.h"
#include "planning/joint/orders/sample_orders.h"
#include "planning/planner/progress_log.h"

namespace lowgear::joint {
namespace {

using ::testing::HasSubstr;

struct Case {
  JointProblem problem;
  profile::LayerProfile layers;
  profile::Partition given;
  double deadline_s = 0;
};

/// Few layers on two or three ranks, the last rank with a head of up to four layers.
Case random_case(std::mt19937& random) {
  const auto one_of = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  Case made;
  const int ranks = one_of(2, 3);
  made.given = profile::uniform_partition(one_of(ranks, 9), ranks);
  const int head = one_of(0, 4);
  std::vector<double> forward_s;
  for (const int layers : made.given) forward_s.push_back(0.001 * one_of(8, 12) * layers);
  forward_s.back() += 0.010 * head;
  made.problem = sample_orders(forward_s, one_of(2, 6));
  made.layers = layer_profile_of(made.problem.profile, made.given);
  const OrderSearch search(made.problem);
  made.deadline_s = search.fastest_s() * (1 + 0.01 * one_of(0, 20));
  return made;
}

EnergyAtDeadline searched_at(double deadline_s) {
  return [deadline_s](const JointProblem& problem) {
    const OrderSearch search(problem, deadline_s);
    return search.orders()[search.best_at(deadline_s)].curve.energy_j_at(deadline_s);
  };
}

double searched_j(const Case& of, const profile::Partition& partition) {
  return searched_at(of.deadline_s)(with_partition(of.problem, of.layers, partition));
}

/// Every way to give each of the ranks at least one layer.
std::vector<profile::Partition> all_partitions(int layers, int ranks) {
  if (ranks == 1) return {{layers}};
  std::vector<profile::Partition> all;
  for (int first = 1; first + ranks - 1 <= layers; ++first) {
    for (profile::Partition rest : all_partitions(layers - first, ranks - 1)) {
      rest.insert(rest.begin(), first);
      all.push_back(std::move(rest));
    }
  }
  return all;
}

TEST(PartitionChoice, IsNeverWorseThanTheGivenOneAndMostlyTheBestOfAll) {
  constexpr int kCases = 150;
  std::mt19937 random(7);
  int best = 0;
  double worst = 0;
  for (int i = 0; i < kCases; ++i) {
    const Case of = random_case(random);
    const PartitionChoice choice =
        choose_partition(of.problem, of.layers, of.given, of.deadline_s, searched_at(of.deadline_s));
    const double chosen_j = searched_j(of, choice.chosen.partition);
    EXPECT_LE(chosen_j, searched_j(of, of.given) * (1 + 1e-12));
    EXPECT_LE(choice.chosen.bound_j, chosen_j * (1 + 1e-9));
    double least_j = std::numeric_limits<double>::infinity();
    for (const profile::Partition& other :
         all_partitions(profile::layer_count(of.given), static_cast<int>(of.given.size()))) {
      least_j = std::min(least_j, searched_j(of, other));
    }
    ASSERT_GE(chosen_j, least_j * (1 - 1e-9));
    worst = std::max(worst, chosen_j / least_j - 1);
    if (chosen_j <= least_j * (1 + 1e-4)) ++best;
  }
  RecordProperty("equal_to_the_best", best);
  EXPECT_GE(best, kCases * 9 / 10);  // all of them when this was written
  EXPECT_LE(worst, 0.01);
}

TEST(PartitionChoice, TakesLayersFromTheRankWithTheHead) {
  const JointProblem problem = sample_orders({0.04, 0.04, 0.08}, 6);
  const profile::Partition given = {4, 4, 4};
  const profile::LayerProfile layers = layer_profile_of(problem.profile, given);
  const double deadline_s = OrderSearch(problem).fastest_s();
  const PartitionChoice choice = choose_partition(problem, layers, given, deadline_s, searched_at(deadline_s));
  EXPECT_LT(choice.chosen.partition.back(), 4);
  EXPECT_LT(choice.chosen.energy_j, choice.given.energy_j);
  EXPECT_GT(choice.tried, 2);
}

TEST(PartitionChoice, ReportsEveryPartitionSoThatAStopIsSoon) {
  const JointProblem problem = sample_orders({0.04, 0.04, 0.08}, 6);
  const profile::Partition given = {4, 4, 4};
  const profile::LayerProfile layers = layer_profile_of(problem.profile, given);
  const double deadline_s = OrderSearch(problem).fastest_s();
  planner::StopsAfter counted(0);
  const PartitionChoice choice =
      choose_partition(problem, layers, given, deadline_s, searched_at(deadline_s), &counted);
  EXPECT_GT(counted.reports(), choice.tried);
  for (const int last : {1, counted.reports() / 2, counted.reports()}) {
    planner::StopsAfter stop(last);
    EXPECT_THROW((void)choose_partition(problem, layers, given, deadline_s, searched_at(deadline_s), &stop), Stopped);
    EXPECT_EQ(stop.reports(), last);
  }
}

TEST(PartitionChoice, KeepsTheOnlyPartitionThereIs) {
  const JointProblem problem = sample_orders({0.04, 0.05}, 3);
  const profile::Partition given = {1, 1};
  const PartitionChoice choice =
      choose_partition(problem, layer_profile_of(problem.profile, given), given, 1, searched_at(1));
  EXPECT_EQ(choice.chosen.partition, given);
  EXPECT_EQ(choice.tried, 1);
}

TEST(PartitionChoice, RefusesAPartitionOfOtherLayers) {
  const JointProblem problem = sample_orders({0.04, 0.05}, 3);
  const profile::LayerProfile layers = layer_profile_of(problem.profile, {2, 2});
  EXPECT_THAT(error_of([&] {
                (void)choose_partition(problem, layers, {2, 3}, 1, searched_at(1));
              }),
              HasSubstr("5 layers"));
}

}  // namespace
}  // namespace lowgear::joint
