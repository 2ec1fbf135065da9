#include "planning/simulator/timing_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "planning/plan/pipelines.h"

namespace lowgear::simulator {
namespace {

using ::testing::ElementsAre;

/// Ops without meaning and random edges from earlier to later ones of a random order.
schedule::PipelineDag random_dag(int ops, std::mt19937& random) {
  schedule::PipelineDag dag;
  dag.ranks = 1;
  dag.stages = 1;
  dag.ops.resize(static_cast<std::size_t>(ops));
  dag.rank_begin = {0, ops};
  dag.topological_order.resize(static_cast<std::size_t>(ops));
  std::iota(dag.topological_order.begin(), dag.topological_order.end(), 0);
  std::shuffle(dag.topological_order.begin(), dag.topological_order.end(), random);
  for (std::size_t to = 1; to < dag.ops.size(); ++to) {
    for (std::size_t from = 0; from < to; ++from) {
      if (random() % 4 == 0) {
        dag.edges.push_back({dag.topological_order[from], dag.topological_order[to]});
      }
    }
  }
  std::shuffle(dag.edges.begin(), dag.edges.end(), random);
  return dag;
}

/// Longest paths by relaxing all edges until nothing changes (Bellman-Ford): knows no topological order.
std::vector<TimePs> start_times_by_relaxation(const schedule::PipelineDag& dag,
                                              const std::vector<TimePs>& duration_ps) {
  std::vector<TimePs> start_ps(duration_ps.size(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (const schedule::DagEdge& edge : dag.edges) {
      const TimePs end_ps =
          start_ps[static_cast<std::size_t>(edge.from)] + duration_ps[static_cast<std::size_t>(edge.from)];
      TimePs& start = start_ps[static_cast<std::size_t>(edge.to)];
      if (end_ps > start) {
        start = end_ps;
        changed = true;
      }
    }
  }
  return start_ps;
}

TEST(TimingGraph, StartsOpsAsSoonAsTheyMay) {
  // Two stages, two microbatches: F0 F1 B0 B1 on rank 0, F0 B0 F1 B1 on rank 1.
  const TimingGraph graph(plan::pipeline(2, 2));
  std::vector<double> start_s(graph.op_count());
  EXPECT_EQ(graph.start_times(std::vector<double>{1, 1, 2, 2, 1, 2, 1, 2}, start_s), 9);
  EXPECT_THAT(start_s, ElementsAre(0, 1, 4, 7, 1, 2, 4, 5));
}

TEST(TimingGraph, OfNothingTakesNoTime) {
  schedule::PipelineDag dag;
  dag.rank_begin = {0};
  EXPECT_EQ(TimingGraph(dag).start_times(std::span<const double>{}, {}), 0);
}

TEST(TimingGraph, AgreesWithRelaxationOnRandomGraphs) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const schedule::PipelineDag dag = random_dag(1 + static_cast<int>(random() % 40), random);
    std::vector<TimePs> duration_ps(dag.ops.size());
    for (TimePs& duration : duration_ps) {
      duration = static_cast<TimePs>(random() % 1000) * 1'000'000'000;
    }
    const std::vector<TimePs> expected = start_times_by_relaxation(dag, duration_ps);
    TimePs expected_makespan = 0;
    for (std::size_t op = 0; op < expected.size(); ++op) {
      expected_makespan = std::max(expected_makespan, expected[op] + duration_ps[op]);
    }
    const TimingGraph graph(dag);
    std::vector<TimePs> start_ps(dag.ops.size(), -1);
    EXPECT_EQ(graph.start_times(duration_ps, start_ps), expected_makespan);
    EXPECT_EQ(start_ps, expected);
  }
}

TEST(TimingGraph, GivesTheSameInSecondsAndPicoseconds) {
  const TimingGraph graph(plan::pipeline(4, 8));
  std::mt19937 random(3);
  std::vector<TimePs> duration_ps(graph.op_count());
  std::vector<double> duration_s(graph.op_count());
  for (std::size_t op = 0; op < duration_ps.size(); ++op) {
    duration_ps[op] = static_cast<TimePs>(random() % 1'000'000) * 1'000'000;
    duration_s[op] = s_from_ps(duration_ps[op]);
  }
  std::vector<TimePs> start_ps(graph.op_count());
  std::vector<double> start_s(graph.op_count());
  const TimePs makespan_ps = graph.start_times(duration_ps, start_ps);
  EXPECT_NEAR(graph.start_times(duration_s, start_s), s_from_ps(makespan_ps), 1e-12);
  for (std::size_t op = 0; op < start_s.size(); ++op) {
    EXPECT_NEAR(start_s[op], s_from_ps(start_ps[op]), 1e-12);
  }
}

}  // namespace
}  // namespace lowgear::simulator
