#include "planning/planner/frontier/frontier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "planning/planner/exact_units.h"
#include "planning/planner/progress_log.h"
#include "planning/planner/random_instances.h"
#include "planning/planner/small_instances.h"
#include "planning/schedule/dag.h"

namespace lowgear::planner {

namespace {

using ::testing::ElementsAre;

std::vector<TimePs> times_of(const Frontier& frontier) {
  std::vector<TimePs> times_ps;
  for (const FrontierVertex& vertex : frontier.vertices()) times_ps.push_back(vertex.time_ps);
  return times_ps;
}

std::vector<PowerNw> slopes_of(const Frontier& frontier) {
  std::vector<PowerNw> slopes_nw;
  for (const BoundLine& line : frontier.bounds()) slopes_nw.push_back(line.slope_nw);
  return slopes_nw;
}

constexpr EnergyZj kJoule = static_cast<EnergyZj>(1'000'000'000'000) * 1'000'000'000;

// Seconds and watts: 1, 2 and 4 s; 50 W saved, then 30 W.
const ConvexCost kOp{{kSecond, 2 * kSecond, 4 * kSecond}, {50 * kWatt, 30 * kWatt}, 200 * kJoule};

TEST(Frontier, ListsTheVerticesOfASingleOpFastestFirst) {
  const Frontier frontier = solve_frontier(instance_of({kOp}, {}, 10 * kWatt));
  EXPECT_THAT(times_of(frontier), ElementsAre(kSecond, 2 * kSecond, 4 * kSecond));
  EXPECT_THAT(slopes_of(frontier), ElementsAre(50 * kWatt, 30 * kWatt, 10 * kWatt));
  EXPECT_DOUBLE_EQ(frontier.energy_j(frontier.vertices()[0]), 200 + 10);
  EXPECT_DOUBLE_EQ(frontier.energy_j(frontier.vertices()[1]), 150 + 20);
  EXPECT_DOUBLE_EQ(frontier.energy_j(frontier.vertices()[2]), 90 + 40);
  EXPECT_EQ(frontier.epsilon(), 0);
}

TEST(Frontier, InterpolatesAndClamps) {
  const Frontier frontier = solve_frontier(instance_of({kOp}, {}, 10 * kWatt));
  EXPECT_DOUBLE_EQ(frontier.energy_j_at(3 * kSecond), 120 + 30);
  EXPECT_DOUBLE_EQ(frontier.lower_bound_j_at(3 * kSecond), 120 + 30);
  EXPECT_DOUBLE_EQ(frontier.energy_j_at(kSecond / 2), 210);
  EXPECT_DOUBLE_EQ(frontier.lower_bound_j_at(kSecond / 2), 210);
  EXPECT_DOUBLE_EQ(frontier.energy_j_at(100 * kSecond), 130);
  EXPECT_DOUBLE_EQ(frontier.lower_bound_j_at(100 * kSecond), 130);
}

TEST(Frontier, EndsWhereWaitingCostsMoreThanItSaves) {
  EXPECT_THAT(times_of(solve_frontier(instance_of({kOp}, {}, 0))), ElementsAre(kSecond, 2 * kSecond, 4 * kSecond));
  EXPECT_THAT(times_of(solve_frontier(instance_of({kOp}, {}, 40 * kWatt))), ElementsAre(kSecond, 2 * kSecond));
  EXPECT_THAT(times_of(solve_frontier(instance_of({kOp}, {}, 1000 * kWatt))), ElementsAre(kSecond));
}

TEST(Frontier, EndsAtTheFirstTimeOfLeastEnergy) {
  // From 2 s on, a slower op saves exactly what the longer wait costs.
  const Frontier frontier = solve_frontier(instance_of({kOp}, {}, 30 * kWatt));
  EXPECT_THAT(times_of(frontier), ElementsAre(kSecond, 2 * kSecond));
}

TEST(Frontier, IsAPointWhereNothingCanBeChosen) {
  const Frontier frontier = solve_frontier(instance_of({{{kSecond}, {}, 5 * kJoule}}, {}, 7 * kWatt));
  EXPECT_THAT(times_of(frontier), ElementsAre(kSecond));
  EXPECT_DOUBLE_EQ(frontier.energy_j_at(kSecond), 12);
  EXPECT_DOUBLE_EQ(frontier.lower_bound_j_at(kSecond), 12);
  EXPECT_EQ(frontier.epsilon(), 0);
}

TEST(Frontier, KnowsHowFarItIsFromItsBounds) {
  const std::vector<FrontierVertex> vertices{{kSecond, 100 * kJoule}, {3 * kSecond, 60 * kJoule}};
  const std::vector<BoundLine> bounds{{60 * kWatt, 150 * kJoule}, {5 * kWatt, 73 * kJoule}, {0, 60 * kJoule}};
  const Frontier frontier(vertices, bounds, 0);
  // They cross at 1.4 s, where the bound is 66 J and the chord 92 J.
  EXPECT_NEAR(frontier.epsilon(), (92.0 - 66.0) / 66.0, 1e-9);
}

TEST(Frontier, IgnoresBoundsThatOthersHide) {
  const std::vector<FrontierVertex> vertices{{kSecond, 100 * kJoule}, {3 * kSecond, 60 * kJoule}};
  const std::vector<BoundLine> bounds{
      {60 * kWatt, 150 * kJoule}, {30 * kWatt, 40 * kJoule}, {5 * kWatt, 73 * kJoule}, {0, 60 * kJoule}};
  const Frontier frontier(vertices, bounds, 0);
  EXPECT_NEAR(frontier.epsilon(), (92.0 - 66.0) / 66.0, 1e-9);
}

TEST(Frontier, BoundsSlowerIterationsByLinesThatHoldForThem) {
  // T* is 2 s. The steep line bounds T* itself more tightly than any slower iteration.
  const std::vector<FrontierVertex> vertices{{kSecond, 100 * kJoule}, {2 * kSecond, 80 * kJoule}};
  const std::vector<BoundLine> bounds{{20 * kWatt, 119 * kJoule}, {10 * kWatt, 98 * kJoule}};
  const Frontier frontier(vertices, bounds, 10 * kWatt);
  EXPECT_DOUBLE_EQ(frontier.lower_bound_j_at(2 * kSecond), 79 + 20);
  EXPECT_DOUBLE_EQ(frontier.lower_bound_j_at(3 * kSecond), 98) << "of 98 - 10 T, with 10 W for every second";
}

TEST(Frontier, IsExactAndConvexOnRandomGraphs) {
  std::mt19937_64 random(31);
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE("graph " + std::to_string(i));
    const ProblemInstance instance = random_instance(random, {});
    const Frontier frontier = solve_frontier(instance);
    EXPECT_LT(frontier.epsilon(), 1e-15) << "only what a double cannot show";
    const auto vertices = frontier.vertices();
    const auto bounds = frontier.bounds();
    ASSERT_EQ(vertices.size(), bounds.size());
    for (std::size_t k = 1; k < vertices.size(); ++k) {
      EXPECT_LT(vertices[k - 1].time_ps, vertices[k].time_ps);
      EXPECT_GT(bounds[k - 1].slope_nw, bounds[k].slope_nw);
      // The line of the faster vertex of a stretch is the stretch.
      EXPECT_TRUE(vertices[k - 1].effective_energy_zj - vertices[k].effective_energy_zj ==
                  static_cast<EnergyZj>(bounds[k - 1].slope_nw) * (vertices[k].time_ps - vertices[k - 1].time_ps));
    }
    EXPECT_EQ(bounds.back().slope_nw, instance.blocking_power_nw);
    if (HasFailure()) return;
  }
}

/// Notes what it is shown.
class Witness final : public FrontierObserver {
 public:
  void vertex(const FrontierSolver& solver) override {
    times_ps_.push_back(solver.time_ps());
    flows_nw_.push_back(solver.flow_value_nw());
  }
  std::vector<TimePs> times_ps_;
  std::vector<PowerNw> flows_nw_;
};

TEST(Frontier, ShowsObserversEveryVertexSlowestFirst) {
  Witness first;
  Witness second;
  const auto observers = std::to_array<FrontierObserver*>({&first, &second});
  (void)solve_frontier(instance_of({kOp}, {}, 10 * kWatt), observers);
  EXPECT_THAT(first.times_ps_, ElementsAre(4 * kSecond, 2 * kSecond, kSecond));
  EXPECT_THAT(first.flows_nw_, ElementsAre(10 * kWatt, 30 * kWatt, 50 * kWatt));
  EXPECT_EQ(second.times_ps_, first.times_ps_);
}

TEST(Frontier, ReportsHowFarItHasCome) {
  std::mt19937_64 random(8);
  const ProblemInstance instance = random_instance(random, {.min_ops = 25, .max_ops = 25});
  ProgressLog log;
  (void)solve_frontier(instance, {}, &log);
  ASSERT_FALSE(log.fractions.empty());
  EXPECT_TRUE(std::is_sorted(log.fractions.begin(), log.fractions.end()));
  EXPECT_LT(log.fractions.front(), 0) << "the distance to T* is unknown";
  EXPECT_EQ(std::ranges::count(log.fractions, 0), 0);
  EXPECT_DOUBLE_EQ(log.fractions.back(), 1);
}

TEST(Checkpoints, GiveTheFastestPlaceThatIsSlowerThanAsked) {
  const ProblemInstance instance = instance_of({kOp}, {}, 10 * kWatt);
  Checkpoints checkpoints(instance);
  EXPECT_EQ(checkpoints.before(kSecond), nullptr) << "before any walk";
  const auto observer = std::to_array<FrontierObserver*>({&checkpoints});
  const Frontier frontier = solve_frontier(instance, observer);
  ASSERT_EQ(frontier.vertices().size(), 3U);
  EXPECT_EQ(checkpoints.before(4 * kSecond + 1), nullptr);
  ASSERT_NE(checkpoints.before(4 * kSecond), nullptr);
  EXPECT_EQ(checkpoints.before(4 * kSecond)->flow_value_nw, 10 * kWatt);
  EXPECT_EQ(checkpoints.before(2 * kSecond)->flow_value_nw, 30 * kWatt) << "the flow of the stretch that ends there";
  EXPECT_EQ(checkpoints.before(2 * kSecond - 1)->flow_value_nw, 50 * kWatt);
  EXPECT_EQ(checkpoints.before(kSecond)->flow_value_nw, 50 * kWatt);
}

TEST(Checkpoints, KeepTheLastPlaceBeforeEachDeadlineOfTheGrid) {
  ConvexCost many_pieces{{1}, {}, 0};
  for (PowerNw slope_nw = 2000; slope_nw > 0; --slope_nw) {
    many_pieces.slope_nw.push_back(slope_nw);
    many_pieces.time_ps.push_back(many_pieces.time_ps.back() + 1);
  }
  const ProblemInstance instance = instance_of({many_pieces});
  Checkpoints checkpoints(instance);
  const auto observer = std::to_array<FrontierObserver*>({&checkpoints});
  const Frontier frontier = solve_frontier(instance, observer);
  const DeadlineGrid grid = deadline_grid(frontier.fastest_ps(), frontier.slowest_ps(), 1);
  ASSERT_LT(grid.count, 2000);
  std::set<const FrontierSolver::State*> kept;
  for (TimePs time_ps = frontier.fastest_ps(); time_ps <= frontier.slowest_ps(); ++time_ps) {
    kept.insert(checkpoints.before(time_ps));
  }
  EXPECT_LE(kept.size(), static_cast<std::size_t>(grid.count) + 1);
  for (TimePs k = 0; k + 1 < grid.count; ++k) {
    // There is a vertex at every time, so that the one before is a unit slower; the op ends with the iteration.
    ASSERT_NE(checkpoints.before(grid.at_ps(k)), nullptr);
    EXPECT_EQ(checkpoints.before(grid.at_ps(k))->event_time_ps.at(1), grid.at_ps(k) + 1) << k;
  }
}

/// Every op has its time within its window, and windows keep precedence and deadline.
void expect_sound(const ProblemInstance& instance, const ContinuousPlan& plan) {
  for (std::size_t op = 0; op < plan.op_time_ps.size(); ++op) {
    EXPECT_GE(plan.start_by_ps[op], 0);
    EXPECT_LE(plan.start_by_ps[op] + plan.op_time_ps[op], plan.finish_by_ps[op]);
    EXPECT_LE(plan.finish_by_ps[op], plan.deadline_ps);
  }
  for (const schedule::DagEdge& edge : instance.edges) {
    EXPECT_LE(plan.finish_by_ps[static_cast<std::size_t>(edge.from)],
              plan.start_by_ps[static_cast<std::size_t>(edge.to)]);
  }
}

TEST(DeadlineSolver, FindsWhatTheFrontierShows) {
  std::mt19937_64 random(77);
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE("graph " + std::to_string(i));
    const ProblemInstance instance = random_instance(random, {});
    Checkpoints checkpoints(instance);
    const auto observer = std::to_array<FrontierObserver*>({&checkpoints});
    const Frontier frontier = solve_frontier(instance, observer);
    DeadlineSolver warm(instance, &checkpoints);
    DeadlineSolver cold(instance, nullptr);
    for (int k = 0; k < 12; ++k) {
      TimePs deadline_ps = random_in(random, frontier.fastest_ps(), frontier.slowest_ps());
      if (k == 0) deadline_ps = frontier.fastest_ps();
      if (k == 1) deadline_ps = frontier.slowest_ps();
      for (DeadlineSolver* solver : {&warm, &cold}) {
        const ContinuousPlan plan = solver->solve(deadline_ps);
        expect_sound(instance, plan);
        EXPECT_EQ(makespan_ps(instance, plan.op_time_ps), deadline_ps);
        const double energy_j = j_from_zj(effective_energy_zj(instance, plan.op_time_ps) +
                                          static_cast<EnergyZj>(instance.blocking_power_nw) * deadline_ps);
        EXPECT_DOUBLE_EQ(energy_j, frontier.energy_j_at(deadline_ps));
      }
    }
    if (HasFailure()) return;
  }
}

TEST(DeadlineSolver, SolvesDeadlinesBeyondTheTimeOfLeastEnergy) {
  const ProblemInstance instance = instance_of({kOp}, {}, 1000 * kWatt);
  DeadlineSolver solver(instance, nullptr);
  EXPECT_THAT(solver.solve(3 * kSecond).op_time_ps, ElementsAre(3 * kSecond));
  EXPECT_THAT(solver.solve(9 * kSecond).op_time_ps, ElementsAre(4 * kSecond));
}

TEST(BoundOfFlow, HoldsForAnyFlowAndTime) {
  // Any path may carry any flow: what it proves is never above what the frontier reaches.
  std::mt19937_64 random(13);
  for (int i = 0; i < 100; ++i) {
    const ProblemInstance instance = random_instance(random, {});
    const Frontier frontier = solve_frontier(instance);
    std::vector<PowerNw> flow_nw(static_cast<std::size_t>(instance.op_count()), 0);
    const PowerNw value_nw = random_in(random, 0, 3'000'000'000'000);
    std::vector<bool> has_predecessor(flow_nw.size(), false);
    for (const schedule::DagEdge& edge : instance.edges) has_predecessor[static_cast<std::size_t>(edge.to)] = true;
    int op = 0;
    while (has_predecessor[static_cast<std::size_t>(op)]) ++op;
    for (bool more = true; more;) {
      flow_nw[static_cast<std::size_t>(op)] = value_nw;
      const auto next = std::find_if(instance.edges.begin(), instance.edges.end(),
                                     [op](const schedule::DagEdge& e) { return e.from == op; });
      more = next != instance.edges.end();
      if (more) op = next->to;
    }
    const BoundLine bound = bound_of_flow(instance, flow_nw, value_nw);
    for (const FrontierVertex& vertex : frontier.vertices()) {
      EXPECT_TRUE(bound.intercept_zj - static_cast<EnergyZj>(bound.slope_nw) * vertex.time_ps <=
                  vertex.effective_energy_zj)
          << "graph " << i;
    }
  }
}

TEST(EffectiveEnergy, IsLinearBetweenBreakpoints) {
  const ProblemInstance instance = instance_of({kOp, kOp});
  const std::vector<TimePs> time_ps{kSecond + kSecond / 2, 3 * kSecond};
  EXPECT_TRUE(effective_energy_zj(instance, time_ps) == (175 + 120) * kJoule);
}

}  // namespace

}  // namespace lowgear::planner
