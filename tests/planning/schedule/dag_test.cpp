#include "planning/schedule/dag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/core/error_of.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/schedule_testing.h"

namespace lowgear::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Relation = std::vector<std::vector<bool>>;

void close_transitively(Relation& relation) {
  const std::size_t n = relation.size();
  for (std::size_t via = 0; via < n; ++via) {
    for (std::size_t from = 0; from < n; ++from) {
      if (!relation[from][via]) continue;
      for (std::size_t to = 0; to < n; ++to) {
        if (relation[via][to]) relation[from][to] = true;
      }
    }
  }
}

Relation empty_relation(const PipelineDag& dag) {
  return Relation(dag.ops.size(), std::vector<bool>(dag.ops.size(), false));
}

/// "Must precede", straight from the definition, pair by pair.
Relation precedence_by_definition(const PipelineDag& dag) {
  Relation relation = empty_relation(dag);
  for (std::size_t from = 0; from < dag.ops.size(); ++from) {
    for (std::size_t to = 0; to < dag.ops.size(); ++to) {
      const bool in_order = dag.ops[from].rank == dag.ops[to].rank && from < to;
      relation[from][to] = in_order || needs_data(dag.ops[from], dag.ops[to], dag.stages);
    }
  }
  close_transitively(relation);
  return relation;
}

Relation precedence_by_edges(const PipelineDag& dag) {
  Relation relation = empty_relation(dag);
  for (const DagEdge& edge : dag.edges)
    relation[static_cast<std::size_t>(edge.from)][static_cast<std::size_t>(edge.to)] = true;
  close_transitively(relation);
  return relation;
}

void expect_consistent(const PipelineDag& dag) {
  EXPECT_EQ(precedence_by_edges(dag), precedence_by_definition(dag));
  std::set<std::pair<int, int>> distinct;
  for (const DagEdge& edge : dag.edges) distinct.insert({edge.from, edge.to});
  EXPECT_EQ(distinct.size(), dag.edges.size()) << "an edge occurs twice";
  std::vector<int> place(dag.ops.size(), -1);
  for (std::size_t i = 0; i < dag.topological_order.size(); ++i) {
    place[static_cast<std::size_t>(dag.topological_order[i])] = static_cast<int>(i);
  }
  EXPECT_EQ(std::count(place.begin(), place.end(), -1), 0) << "an op is missing in the topological order";
  for (const DagEdge& edge : dag.edges) {
    EXPECT_LT(place[static_cast<std::size_t>(edge.from)], place[static_cast<std::size_t>(edge.to)]);
  }
}

TEST(Dag, OfTwoRanksIsAsWrittenByHand) {
  const PipelineDag dag = build_dag(schedule_from({"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"}));
  EXPECT_EQ(dag.ranks, 2);
  EXPECT_EQ(dag.stages, 2);
  EXPECT_EQ(dag.microbatches, 2);
  EXPECT_THAT(dag.rank_begin, ElementsAre(0, 4, 8));
  EXPECT_EQ(dag.ops[5], (ComputeOp{1, 1, OpKind::backward, 0}));
  EXPECT_THAT(dag.edges, ElementsAre(DagEdge{0, 1}, DagEdge{0, 4}, DagEdge{1, 2}, DagEdge{1, 6}, DagEdge{2, 3},
                                     DagEdge{4, 5}, DagEdge{5, 6}, DagEdge{5, 2}, DagEdge{6, 7}, DagEdge{7, 3}));
}

TEST(Dag, WeightGradientsHoldNobodyUp) {
  const PipelineDag dag = build_dag(schedule_from({"0F0 0I0 0W0", "1F0 1I0 1W0"}));
  EXPECT_THAT(dag.edges,
              ElementsAre(DagEdge{0, 1}, DagEdge{0, 3}, DagEdge{1, 2}, DagEdge{3, 4}, DagEdge{4, 5}, DagEdge{4, 1}));
}

TEST(Dag, RecomputationsWaitForNoGradient) {
  const PipelineDag dag = build_dag(schedule_from({"0F0 0R0 0B0", "1F0 1C0"}));
  EXPECT_THAT(dag.edges, ElementsAre(DagEdge{0, 1}, DagEdge{0, 3}, DagEdge{1, 2}, DagEdge{3, 4}, DagEdge{4, 2}));
}

TEST(Dag, RefusesARecomputationOutOfItsPlace) {
  EXPECT_THAT(error_of([] { (void)build_dag(schedule_from({"0R0 0F0 0B0"})); }),
              HasSubstr("0R0 (rank 0, computation 0) waits for 0F0"));
  EXPECT_THAT(error_of([] { (void)build_dag(schedule_from({"0F0 0B0 0R0"})); }),
              HasSubstr("0B0 (rank 0, computation 1) waits for 0R0"));
}

TEST(Dag, IgnoresCommunication) {
  const Schedule schedule = one_f_one_b_schedule(3, 4);
  const PipelineDag plain = build_dag(schedule);
  const PipelineDag with = build_dag(with_communication(schedule));
  EXPECT_EQ(plain.ops, with.ops);
  EXPECT_EQ(plain.edges, with.edges);
}

TEST(Dag, OfRandomSchedulesOrdersWhatTheDefinitionOrders) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const Schedule schedule = random_schedule(random);
    const PipelineDag dag = build_dag(schedule);
    expect_consistent(dag);
    EXPECT_EQ(dag.topological_order, build_dag(schedule).topological_order);
    if (HasFailure()) return;
  }
}

TEST(Dag, OfGeneratedSchedulesOrdersWhatTheDefinitionOrders) {
  expect_consistent(build_dag(gpipe_schedule(4, 5)));
  expect_consistent(build_dag(one_f_one_b_schedule(4, 6)));
  expect_consistent(build_dag(interleaved_schedule(3, 6, 2)));
  expect_consistent(build_dag(zb_h1_schedule(4, 6)));
  expect_consistent(build_dag(merak_full_critical_path_schedule(4, 6)));
}

TEST(Dag, RefusesAnOrderWithinARankAgainstItsData) {
  EXPECT_EQ(
      error_of([] { (void)build_dag(schedule_from({"0B0 0F0"})); }),
      "test: the dependencies cycle: 0B0 (rank 0, computation 0) waits for 0F0 (rank 0, computation 1), which its "
      "rank runs later; swap them");
  EXPECT_THAT(error_of([] { (void)build_dag(schedule_from({"0F0 0W0 0I0"})); }),
              HasSubstr("0W0 (rank 0, computation 1) waits for 0I0"));
  EXPECT_THAT(error_of([] { (void)build_dag(schedule_from({"1F0 0F0 1B0 0B0"})); }),
              HasSubstr("1F0 (rank 0, computation 0) waits for 0F0"));
}

TEST(Dag, NamesACycleThroughTwoRanks) {
  // Rank 1 wants both forwards before a backward, rank 0 wants the first backward before the second forward.
  EXPECT_EQ(
      error_of([] {
        (void)build_dag(schedule_from({"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"}));
      }),
      "test: the dependencies cycle: 0B0 (rank 0, computation 1) waits for 1B0 (rank 1, computation 2), which waits "
      "for 1F1 (rank 1, computation 1), which waits for 0F1 (rank 0, computation 2), which waits for 0B0 (rank 0, "
      "computation 1); reorder one of these ranks");
}

TEST(Dag, ShortensTheNameOfALongCycle) {
  std::vector<int> extra(40, 0);
  extra.back() = 100;
  const std::string message = error_of([&] { (void)build_dag(envpipe_schedule(200, extra)); });
  EXPECT_THAT(message, HasSubstr("the dependencies cycle"));
  EXPECT_LT(message.size(), 1500U);
}

/// Every order of one rank of a small pipeline, the other ranks fixed: refused exactly when the relation is cyclic.
TEST(Dag, RefusesExactlyTheCyclicOrders) {
  std::vector<Action> order = schedule_from({"1F0 1F1 1B0 1B1"}).ranks[0];
  const auto before = [](const Action& a, const Action& b) {
    return std::pair(a.op, a.microbatch) < std::pair(b.op, b.microbatch);
  };
  std::sort(order.begin(), order.end(), before);
  int refused = 0;
  do {
    Schedule schedule = schedule_from({"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1", "2F0 2B0 2F1 2B1"});
    schedule.ranks[1] = order;
    PipelineDag unordered{3, 3, 2, {}, {}, {}, {}};
    for (int rank = 0; rank < 3; ++rank) {
      for (const Action& a : schedule.ranks[static_cast<std::size_t>(rank)])
        unordered.ops.push_back({rank, a.stage, a.op, a.microbatch});
    }
    const Relation relation = precedence_by_definition(unordered);
    bool cyclic = false;
    for (std::size_t op = 0; op < relation.size(); ++op) cyclic = cyclic || relation[op][op];
    EXPECT_EQ(error_of([&] { (void)build_dag(schedule); }) != "no error", cyclic) << row(schedule, 1);
    refused += cyclic ? 1 : 0;
  } while (std::next_permutation(order.begin(), order.end(), before));
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 24);
}

}  // namespace
}  // namespace lowgear::schedule
