#include "planning/planner/frontier/frontier_solver.h"

#include <gmock/gmock.h>

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "planning/planner/frontier/frontier.h"
#include "planning/planner/random_instances.h"
#include "planning/planner/small_instances.h"

namespace lowgear::planner {
namespace {

using ::testing::ElementsAre;
using Saturation = FrontierSolver::Saturation;

std::vector<TimePs> op_times(const FrontierSolver& solver) {
  std::vector<TimePs> time_ps(solver.op_flow_nw().size());
  solver.op_times(time_ps);
  return time_ps;
}

/// The walk from the slow end to the fast one, as iteration times.
std::vector<TimePs> vertex_times(FrontierSolver& solver) {
  std::vector<TimePs> times_ps{solver.time_ps()};
  while (solver.saturate() == Saturation::shorter_possible) {
    solver.shorten();
    times_ps.push_back(solver.time_ps());
  }
  return times_ps;
}

// Times 10, 20, 40; from slow to fast, a unit of time costs 3, then 5.
const ConvexCost kTwoPieces{{10, 20, 40}, {5, 3}, 200};

TEST(FrontierSolver, StartsWithEveryOpAtItsSlowest) {
  const ProblemInstance instance = instance_of({kTwoPieces});
  const FrontierSolver solver(instance);
  EXPECT_EQ(solver.time_ps(), 40);
  EXPECT_EQ(solver.flow_value_nw(), 0);
  EXPECT_TRUE(solver.effective_energy_zj() == 200 - 10 * 5 - 20 * 3);
  EXPECT_THAT(op_times(solver), ElementsAre(40));
}

TEST(FrontierSolver, WalksTheBreakpointsOfASingleOp) {
  const ProblemInstance instance = instance_of({kTwoPieces});
  FrontierSolver solver(instance);
  ASSERT_EQ(solver.saturate(), Saturation::shorter_possible);
  EXPECT_EQ(solver.flow_value_nw(), 3);
  solver.shorten();
  EXPECT_EQ(solver.time_ps(), 20);
  EXPECT_TRUE(solver.effective_energy_zj() == 150);
  ASSERT_EQ(solver.saturate(), Saturation::shorter_possible);
  EXPECT_EQ(solver.flow_value_nw(), 5);
  solver.shorten();
  EXPECT_EQ(solver.time_ps(), 10);
  EXPECT_TRUE(solver.effective_energy_zj() == 200);
  EXPECT_THAT(op_times(solver), ElementsAre(10));
  EXPECT_EQ(solver.saturate(), Saturation::fastest);
}

TEST(FrontierSolver, ShortensTheCheapestOpOfAChainFirst) {
  const ProblemInstance instance = instance_of({{{5, 10}, {7}, 0}, {{5, 10}, {2}, 0}}, {{0, 1}});
  FrontierSolver solver(instance);
  ASSERT_EQ(solver.saturate(), Saturation::shorter_possible);
  EXPECT_EQ(solver.flow_value_nw(), 2);
  EXPECT_THAT(solver.op_flow_nw(), ElementsAre(2, 2));
  EXPECT_THAT(solver.edge_flow_nw(), ElementsAre(2));
  solver.shorten();
  EXPECT_THAT(op_times(solver), ElementsAre(10, 5));
  ASSERT_EQ(solver.saturate(), Saturation::shorter_possible);
  EXPECT_EQ(solver.flow_value_nw(), 7);
  solver.shorten();
  EXPECT_THAT(op_times(solver), ElementsAre(5, 5));
  EXPECT_EQ(solver.saturate(), Saturation::fastest);
}

TEST(FrontierSolver, ShortensParallelOpsTogether) {
  const ProblemInstance instance = instance_of({{{5, 10}, {7}, 0}, {{4, 10}, {2}, 0}});
  FrontierSolver solver(instance);
  ASSERT_EQ(solver.saturate(), Saturation::shorter_possible);
  EXPECT_EQ(solver.flow_value_nw(), 9);
  solver.shorten();
  EXPECT_EQ(solver.time_ps(), 5);
  EXPECT_THAT(op_times(solver), ElementsAre(5, 5)) << "nothing is gained by making the second one faster";
  EXPECT_EQ(solver.saturate(), Saturation::fastest);
}

TEST(FrontierSolver, LetsAnOpGetSlowerAgainWhenOthersGetFaster) {
  // A bridge: A before X and C, B and X before D. X is the cheapest on A-X-D; once A-C and B-D are as long, only A and
  // D together help (5 + 5), and X gets its time back (- 4).
  const ProblemInstance instance =
      instance_of({{{1, 9}, {5}, 0}, {{14}, {}, 0}, {{1, 9}, {4}, 0}, {{14}, {}, 0}, {{1, 9}, {5}, 0}},
                  {{0, 2}, {0, 3}, {1, 4}, {2, 4}});
  FrontierSolver solver(instance);
  ASSERT_EQ(solver.saturate(), Saturation::shorter_possible);
  EXPECT_EQ(solver.flow_value_nw(), 4);
  solver.shorten();
  EXPECT_THAT(op_times(solver), ElementsAre(9, 14, 5, 14, 9));
  ASSERT_EQ(solver.saturate(), Saturation::shorter_possible);
  EXPECT_EQ(solver.flow_value_nw(), 6);
  solver.shorten();
  EXPECT_THAT(op_times(solver), ElementsAre(5, 14, 9, 14, 5));
  ASSERT_EQ(solver.saturate(), Saturation::shorter_possible);
  EXPECT_EQ(solver.flow_value_nw(), 10);
  solver.shorten();
  EXPECT_EQ(solver.time_ps(), 15);
  EXPECT_EQ(solver.saturate(), Saturation::fastest);
}

TEST(FrontierSolver, HasNothingToShortenWhereOpsHaveOneTime) {
  const ProblemInstance instance = instance_of({{{10}, {}, 3}, {{20}, {}, 4}}, {{0, 1}});
  FrontierSolver solver(instance);
  EXPECT_EQ(solver.time_ps(), 30);
  EXPECT_TRUE(solver.effective_energy_zj() == 7);
  EXPECT_EQ(solver.saturate(), Saturation::fastest);
}

TEST(FrontierSolver, LeavesAConstantOpOnThePathAlone) {
  const ProblemInstance instance = instance_of({{{10}, {}, 0}, {{5, 8}, {1}, 0}}, {{0, 1}});
  FrontierSolver solver(instance);
  EXPECT_THAT(vertex_times(solver), ElementsAre(18, 15));
  EXPECT_THAT(op_times(solver), ElementsAre(10, 5));
}

TEST(FrontierSolver, IgnoresWhatIsFasterButNotOnTheCriticalPath) {
  const ProblemInstance instance = instance_of({{{30}, {}, 0}, {{5, 8}, {1}, 0}});
  FrontierSolver solver(instance);
  EXPECT_EQ(solver.saturate(), Saturation::fastest);
  EXPECT_THAT(op_times(solver), ElementsAre(30, 8));
}

TEST(FrontierSolver, StopsPushingAtTheLimit) {
  const ProblemInstance instance = instance_of({kTwoPieces});
  FrontierSolver solver(instance);
  EXPECT_EQ(solver.saturate(0), Saturation::limit_reached);
  EXPECT_EQ(solver.flow_value_nw(), 0);
  EXPECT_EQ(solver.saturate(2), Saturation::limit_reached);
  EXPECT_EQ(solver.flow_value_nw(), 2);
  EXPECT_EQ(solver.saturate(4), Saturation::shorter_possible);
  EXPECT_EQ(solver.flow_value_nw(), 3);
}

TEST(FrontierSolver, StopsShorteningAtTheFloor) {
  const ProblemInstance instance = instance_of({kTwoPieces});
  FrontierSolver solver(instance);
  ASSERT_EQ(solver.saturate(), Saturation::shorter_possible);
  solver.shorten(33);
  EXPECT_EQ(solver.time_ps(), 33);
  EXPECT_TRUE(solver.effective_energy_zj() == 90 + 7 * 3);
  EXPECT_THAT(op_times(solver), ElementsAre(33));
  ASSERT_EQ(solver.saturate(), Saturation::shorter_possible);
  EXPECT_EQ(solver.flow_value_nw(), 3) << "still on the same piece";
  solver.shorten(5);
  EXPECT_EQ(solver.time_ps(), 20) << "the vertex comes before the floor";
}

TEST(FrontierSolver, AcceptsEffectiveEnergiesBelowZero) {
  const ProblemInstance instance = instance_of({{{1, 11}, {4}, -100}});
  FrontierSolver solver(instance);
  EXPECT_TRUE(solver.effective_energy_zj() == -140);
  EXPECT_THAT(vertex_times(solver), ElementsAre(11, 1));
  EXPECT_TRUE(solver.effective_energy_zj() == -100);
}

TEST(FrontierSolver, RefusesMoreTimeThanTheIntegersHold) {
  const TimePs long_ps = ps_from_s(kMaxTimeS * 0.6);
  const ProblemInstance instance = instance_of({{{long_ps}, {}, 0}, {{long_ps}, {}, 0}});
  EXPECT_THROW(FrontierSolver{instance}, InputError);
}

TEST(FrontierSolver, RefusesMorePowerThanTheIntegersHold) {
  // One op that cannot be shortened, before a thousand that save at 10 MW each: flow would come to 10 GW.
  std::vector<ConvexCost> costs(1001, {{1000, 2000}, {10'000'000'000'000'000}, 0});
  costs[0] = {{1000}, {}, 0};
  std::vector<std::pair<int, int>> edges;
  for (int op = 1; op <= 1000; ++op) edges.emplace_back(0, op);
  const ProblemInstance instance = instance_of(costs, edges);
  FrontierSolver solver(instance);
  EXPECT_THROW((void)solver.saturate(), InputError);

  // GPUs that draw more than that while they wait.
  const ProblemInstance single = instance_of({kTwoPieces});
  FrontierSolver other(single);
  constexpr PowerNw kAllStagesNw = 6'500'000'000'000'000'000;
  const auto walk = [&] {
    while (other.saturate(kAllStagesNw) == Saturation::shorter_possible) other.shorten();
  };
  EXPECT_THROW(walk(), InputError);
}

/// Flow leaves every op as it enters it, is nowhere negative, and has the value that the solver states.
void expect_conserved(const ProblemInstance& instance, const FrontierSolver& solver) {
  const auto op_flow = solver.op_flow_nw();
  std::vector<PowerNw> in(op_flow.size(), 0);
  std::vector<PowerNw> out(op_flow.size(), 0);
  std::vector<bool> is_first(op_flow.size(), true);
  std::vector<bool> is_last(op_flow.size(), true);
  for (std::size_t k = 0; k < instance.edges.size(); ++k) {
    const PowerNw flow = solver.edge_flow_nw()[k];
    EXPECT_GE(flow, 0);
    const auto [from, to] = instance.edges[k];
    out[static_cast<std::size_t>(from)] += flow;
    in[static_cast<std::size_t>(to)] += flow;
    is_last[static_cast<std::size_t>(from)] = false;
    is_first[static_cast<std::size_t>(to)] = false;
  }
  PowerNw value = 0;
  for (std::size_t op = 0; op < op_flow.size(); ++op) {
    EXPECT_GE(op_flow[op], 0);
    EXPECT_TRUE(is_first[op] || in[op] == op_flow[op]);
    EXPECT_TRUE(is_last[op] || out[op] == op_flow[op]);
    if (is_first[op]) value += op_flow[op];
  }
  EXPECT_EQ(value, solver.flow_value_nw());
}

TEST(FrontierSolver, KeepsSolutionAndFlowSoundAlongRandomWalks) {
  std::mt19937_64 random(99);
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE("graph " + std::to_string(i));
    const ProblemInstance instance = random_instance(random, {});
    FrontierSolver solver(instance);
    PowerNw flow_nw = 0;
    while (solver.saturate() == Saturation::shorter_possible) {
      EXPECT_GE(solver.flow_value_nw(), flow_nw);
      flow_nw = solver.flow_value_nw();
      const TimePs before_ps = solver.time_ps();
      solver.shorten(random() % 2 == 0 ? 0 : before_ps - 1 - random_in(random, 0, 1'000'000'000));
      EXPECT_LT(solver.time_ps(), before_ps);
      const std::vector<TimePs> time_ps = op_times(solver);
      EXPECT_EQ(makespan_ps(instance, time_ps), solver.time_ps());
      EXPECT_TRUE(effective_energy_zj(instance, time_ps) == solver.effective_energy_zj());
      expect_conserved(instance, solver);
      // Primal = dual: the flow's bound passes through the solution.
      const BoundLine bound = bound_of_flow(instance, solver.op_flow_nw(), solver.flow_value_nw());
      EXPECT_TRUE(bound.intercept_zj - static_cast<EnergyZj>(bound.slope_nw) * solver.time_ps() ==
                  solver.effective_energy_zj());
      for (int op = 0; op < instance.op_count(); ++op) {
        EXPECT_LE(time_ps[static_cast<std::size_t>(op)], solver.finish_event_ps(op) - solver.start_event_ps(op));
      }
    }
    if (HasFailure()) return;
  }
}

TEST(FrontierSolver, WalksOnFromAStateThatWasSaved) {
  std::mt19937_64 random(5);
  const ProblemInstance instance = random_instance(random, {.min_ops = 20, .max_ops = 20});
  FrontierSolver solver(instance);
  std::vector<FrontierSolver::State> states{solver.save()};
  std::vector<TimePs> times_ps{solver.time_ps()};
  while (solver.saturate() == Saturation::shorter_possible) {
    solver.shorten();
    states.push_back(solver.save());
    times_ps.push_back(solver.time_ps());
  }
  ASSERT_GT(states.size(), 5U);
  for (std::size_t from = 0; from < states.size(); from += 3) {
    FrontierSolver again(instance);
    again.restore(states[from]);
    EXPECT_TRUE(again.effective_energy_zj() == states[from].effective_energy_zj);
    for (std::size_t at = from + 1; at < states.size(); ++at) {
      ASSERT_EQ(again.saturate(), Saturation::shorter_possible);
      again.shorten();
      EXPECT_EQ(again.time_ps(), times_ps[at]);
      EXPECT_TRUE(again.effective_energy_zj() == states[at].effective_energy_zj);
    }
    EXPECT_EQ(again.saturate(), Saturation::fastest);
  }
}

}  // namespace
}  // namespace lowgear::planner
