#include "planning/joint/bound/unavoidable_paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "planning/joint/bound/random_orders.h"
#include "planning/planner/frontier/instance.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"

namespace lowgear::joint {
namespace {

/// The shortest that a path can be if its ops are any of their groups, most often the shortest ones.
TimePs least_length_ps(const UnavoidablePath& path, std::vector<std::vector<TimePs>> times_of_group) {
  TimePs length_ps = 0;
  for (std::size_t group = 0; group < path.ops.size(); ++group) {
    std::vector<TimePs>& times = times_of_group[group];
    std::ranges::sort(times);
    auto next = times.begin();
    for (const WeightedOps& some : path.ops[group]) {
      for (int i = 0; i < some.ops; ++i) length_ps += some.weight * *next++;
    }
  }
  return length_ps;
}

/// Any order, with any time for each op: no path may be longer than the iteration. The oracle is the order itself.
TEST(UnavoidablePaths, AreInEveryOrder) {
  std::mt19937 random(1);
  int orders = 0;
  for (int i = 0; i < 3000; ++i) {
    const OrderFreedom freedom = random_freedom(random);
    const std::optional<schedule::Schedule> order = random_order(freedom, random);
    if (!order) continue;
    ++orders;
    const schedule::PipelineDag dag = build_dag(*order);
    planner::ProblemInstance instance;
    instance.edges = dag.edges;
    instance.topological_order = dag.topological_order;
    instance.cost_of_op.resize(dag.ops.size());
    std::vector<TimePs> times_ps;
    std::vector<std::vector<TimePs>> times_of_group(freedom.groups());
    for (const schedule::ComputeOp& op : dag.ops) {
      times_ps.push_back(random() % 4 == 0 ? 1000 : 1 + static_cast<TimePs>(random() % 100));
      times_of_group[freedom.group(op.rank, op.kind)].push_back(times_ps.back());
    }
    const TimePs iteration_ps = makespan_ps(instance, times_ps);
    for (const UnavoidablePath& path : unavoidable_paths(freedom)) {
      ASSERT_LE(least_length_ps(path, times_of_group), iteration_ps * path.parallel)
          << "rank " << path.rank << ", begin " << static_cast<int>(path.begin) << ", end "
          << static_cast<int>(path.end) << ", order " << i;
    }
  }
  EXPECT_GT(orders, 1000);
}

/// With a second for each op of its share, all groups alike.
int longest(const OrderFreedom& freedom, int backward_s) {
  int longest_s = 0;
  for (const UnavoidablePath& path : unavoidable_paths(freedom)) {
    int length_s = 0;
    for (std::size_t group = 0; group < path.ops.size(); ++group) {
      const OpKind kind = freedom.kinds()[group % freedom.kinds().size()];
      for (const WeightedOps& some : path.ops[group]) {
        length_s += some.ops * some.weight * (kind == OpKind::backward ? backward_s : 1);
      }
    }
    longest_s = std::max(longest_s, (length_s + path.parallel - 1) / path.parallel);
  }
  return longest_s;
}

TEST(UnavoidablePaths, ShowThatOneFOneBIsTheFastestWithinItsMemory) {
  const OrderFreedom freedom{
      .rank_of_stage = {0, 1, 2, 3}, .most_activations = {4, 3, 2, 1}, .microbatches = 12, .splits_backward = false};
  EXPECT_EQ(longest(freedom, 2), (12 + 3) * 3);
}

TEST(UnavoidablePaths, ShowThatZbH1IsTheFastestWithAsManyActivationsAsRanks) {
  const OrderFreedom freedom{
      .rank_of_stage = {0, 1, 2, 3}, .most_activations = {4, 4, 4, 4}, .microbatches = 12, .splits_backward = true};
  EXPECT_EQ(longest(freedom, 0), 12 * 3 + 3);
}

/// With room for one microbatch, a rank that runs two stages in a loop waits for it to go round.
TEST(UnavoidablePaths, CountHowLongMemoryIsHeld) {
  const OrderFreedom freedom{
      .rank_of_stage = {0, 1, 0, 1}, .most_activations = {8, 2}, .microbatches = 10, .splits_backward = false};
  EXPECT_GE(longest(freedom, 1), 10 * (6 + 2) / 2);
  OrderFreedom roomy = freedom;
  roomy.most_activations = {20, 20};
  EXPECT_LT(longest(roomy, 1), 10 * 4 + 8);
}

TEST(UnavoidablePaths, HaveNoMoreOpsThanThereAre) {
  std::mt19937 random(2);
  for (int i = 0; i < 500; ++i) {
    const OrderFreedom freedom = random_freedom(random);
    const auto paths = unavoidable_paths(freedom);
    ASSERT_FALSE(paths.empty());
    for (const UnavoidablePath& path : paths) {
      for (const auto& group : path.ops) {
        int ops = 0;
        for (const WeightedOps& some : group) ops += some.ops;
        EXPECT_LE(ops, freedom.ops_of_a_group());
        EXPECT_TRUE(std::ranges::is_sorted(group, std::greater{}, &WeightedOps::weight));
      }
    }
  }
}

}  // namespace
}  // namespace lowgear::joint
