#include "planning/planner/frontier/precedence.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <vector>

#include "planning/planner/random_instances.h"
#include "planning/planner/small_instances.h"

namespace lowgear::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

const ConvexCost kAny{{1}, {}, 0};

TEST(PrecedenceGraph, ListsWhatAnOpWaitsForAndWhatWaitsForIt) {
  const PrecedenceGraph graph(instance_of({kAny, kAny, kAny, kAny}, {{0, 1}, {0, 2}, {1, 3}, {2, 3}}));
  EXPECT_THAT(graph.order(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(graph.predecessors(0), IsEmpty());
  EXPECT_THAT(graph.successors(0), ElementsAre(1, 2));
  EXPECT_THAT(graph.predecessors(3), ElementsAre(1, 2));
  EXPECT_THAT(graph.successors(3), IsEmpty());
}

TEST(PrecedenceGraph, FinishesEachOpAsSoonAsItCan) {
  const PrecedenceGraph graph(instance_of({kAny, kAny, kAny, kAny}, {{0, 1}, {0, 2}, {1, 3}}));
  std::vector<TimePs> finish_ps(4);
  EXPECT_EQ(graph.finish_times(std::vector<TimePs>{2, 3, 50, 5}, finish_ps), 52) << "the last to finish, not to start";
  EXPECT_THAT(finish_ps, ElementsAre(2, 5, 52, 10));
}

TEST(PrecedenceGraph, HoldsTheEdgesOfAnyInstance) {
  std::mt19937_64 random(43);
  for (int i = 0; i < 50; ++i) {
    const ProblemInstance instance = random_instance(random, {});
    const PrecedenceGraph graph(instance);
    std::vector<TimePs> time_ps;
    for (int op = 0; op < instance.op_count(); ++op) time_ps.push_back(random_in(random, 1, 1000));
    std::vector<TimePs> finish_ps(time_ps.size());
    const TimePs makespan_ps = graph.finish_times(time_ps, finish_ps);
    EXPECT_EQ(makespan_ps, *std::max_element(finish_ps.begin(), finish_ps.end()));
    for (int op = 0; op < instance.op_count(); ++op) {
      std::vector<std::int32_t> before;
      std::vector<std::int32_t> after;
      TimePs start_ps = 0;
      for (const schedule::DagEdge& edge : instance.edges) {
        if (edge.to == op) before.push_back(edge.from);
        if (edge.from == op) after.push_back(edge.to);
        if (edge.to == op) start_ps = std::max(start_ps, finish_ps[static_cast<std::size_t>(edge.from)]);
      }
      EXPECT_THAT(graph.predecessors(op), UnorderedElementsAreArray(before));
      EXPECT_THAT(graph.successors(op), UnorderedElementsAreArray(after));
      EXPECT_EQ(finish_ps[static_cast<std::size_t>(op)], start_ps + time_ps[static_cast<std::size_t>(op)]);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace lowgear::planner
