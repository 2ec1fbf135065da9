#include "rivals/policies/envpipe/critical_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>
#include <vector>

#include "planning/schedule/generators.h"
#include "planning/simulator/replay.h"

namespace lowgear::policies {
namespace {

using testing::ElementsAre;

/// Rank 0 runs F0 F1 B0 B1 (ops 0 to 3), rank 1 F0 B0 F1 B1 (ops 4 to 7).
schedule::PipelineDag two_stages() { return schedule::build_dag(schedule::one_f_one_b_schedule(2, 2)); }

TEST(CriticalPath, FollowsTheLongestChain) {
  const schedule::PipelineDag dag = two_stages();
  CriticalPathFinder finder(dag);
  const std::vector<int> slow_last_rank = {1, 1, 1, 1, 10, 10, 10, 10};
  EXPECT_THAT(finder.find(slow_last_rank), ElementsAre(0, 4, 5, 6, 7, 3));
  const std::vector<int> slow_first_rank = {10, 10, 10, 10, 1, 1, 1, 1};
  EXPECT_THAT(finder.find(slow_first_rank), ElementsAre(0, 1, 2, 3));
}

TEST(CriticalPath, StaysOnTheRankWhereItMay) {
  const schedule::PipelineDag dag = two_stages();
  CriticalPathFinder finder(dag);
  // Rank 1's second forward waits as long for rank 0's as for the backward before it.
  const std::vector<int> units = {1, 2, 1, 1, 1, 1, 1, 1};
  EXPECT_THAT(finder.find(units), ElementsAre(0, 1, 6, 7, 3));
}

TEST(CriticalPath, ItsOpsTakeTheWholeIterationWithoutAGap) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> time(1, 5);
  for (int round = 0; round < 50; ++round) {
    const schedule::PipelineDag dag = schedule::build_dag(schedule::one_f_one_b_schedule(2 + round % 3, 3 + round % 4));
    std::set<std::pair<int, int>> edges;
    for (const schedule::DagEdge& edge : dag.edges) edges.emplace(edge.from, edge.to);
    std::vector<int> units(dag.ops.size());
    std::vector<TimePs> times(dag.ops.size());
    for (std::size_t op = 0; op < units.size(); ++op) times[op] = units[op] = time(random);
    std::vector<TimePs> start(dag.ops.size());
    const TimePs makespan = simulator::TimingGraph(dag).start_times(times, start);

    CriticalPathFinder finder(dag);
    const std::vector<int> path = finder.find(units);
    TimePs length = 0;
    for (std::size_t i = 0; i < path.size(); ++i) {
      EXPECT_EQ(start[static_cast<std::size_t>(path[i])], length);
      length += units[static_cast<std::size_t>(path[i])];
      EXPECT_TRUE(i == 0 || edges.contains({path[i - 1], path[i]}));
    }
    EXPECT_EQ(length, makespan);
  }
}

TEST(CriticalPath, IsFoundAnewAfterTimesChange) {
  const schedule::PipelineDag dag = two_stages();
  CriticalPathFinder finder(dag);
  const std::vector<int> slow_first_rank = {10, 10, 10, 10, 1, 1, 1, 1};
  const std::vector<int> slow_last_rank = {1, 1, 1, 1, 10, 10, 10, 10};
  (void)finder.find(slow_first_rank);
  EXPECT_THAT(finder.find(slow_last_rank), ElementsAre(0, 4, 5, 6, 7, 3));
}

}  // namespace
}  // namespace lowgear::policies
