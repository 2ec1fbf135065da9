#include "planning/planner/frontier/instance.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "base/core/error.h"
#include "planning/planner/random_instances.h"
#include "planning/planner/small_instances.h"
#include "planning/planner/verifier/pipeline.h"
#include "planning/profile/options.h"

namespace lowgear::planner {

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Options of the given times and effective energies; what else is in an option does not matter.
std::vector<profile::Option> options_of(const std::vector<std::pair<double, double>>& points) {
  std::vector<profile::Option> options;
  for (const auto& [time_s, effective_energy_j] : points) options.push_back({0, time_s, 0, effective_energy_j});
  return options;
}

double energy_j_at(const ConvexCost& cost, TimePs time_ps) { return j_from_zj(cost.energy_zj(time_ps)); }

TEST(ConvexCost, FallsAlongItsSlopes) {
  const ConvexCost cost{{10, 20, 50}, {7, 2}, 100};
  EXPECT_EQ(cost.fastest_ps(), 10);
  EXPECT_EQ(cost.slowest_ps(), 50);
  EXPECT_TRUE(cost.energy_zj(10) == 100);
  EXPECT_TRUE(cost.energy_zj(13) == 100 - 3 * 7);
  EXPECT_TRUE(cost.energy_zj(20) == 30);
  EXPECT_TRUE(cost.energy_zj(49) == 30 - 29 * 2);
  EXPECT_TRUE(cost.energy_zj(50) == -30) << "effective energies may be negative";
}

TEST(ConvexCostOf, IsTheLowerHullInWholePicosecondsAndNanowatts) {
  const ConvexCost cost = convex_cost(options_of({{0.001, 5}, {0.002, 4.5}, {0.003, 1}, {0.005, 0.5}}));
  EXPECT_THAT(cost.time_ps, ElementsAre(1'000'000'000, 3'000'000'000, 5'000'000'000));
  EXPECT_THAT(cost.slope_nw, ElementsAre(2000 * 1'000'000'000L, 250 * 1'000'000'000L));
  EXPECT_DOUBLE_EQ(energy_j_at(cost, cost.fastest_ps()), 5);
  EXPECT_DOUBLE_EQ(energy_j_at(cost, cost.slowest_ps()), 0.5);
}

TEST(ConvexCostOf, RoundsTimesUp) {
  const ConvexCost cost = convex_cost(options_of({{1.2e-12, 5}, {3.9e-6 + 0.1e-12, 4}}));
  EXPECT_THAT(cost.time_ps, ElementsAre(2, 3'900'001));
}

TEST(ConvexCostOf, TakesTheCheaperOfTwoOptionsInOnePicosecond) {
  const ConvexCost cost = convex_cost(options_of({{1.0000000000001, 5}, {1.0000000000002, 4}, {2, 3}}));
  EXPECT_EQ(cost.time_ps.size(), 2U);
  EXPECT_DOUBLE_EQ(energy_j_at(cost, cost.fastest_ps()), 4);
}

TEST(ConvexCostOf, DropsTimeThatNoGpuCouldSaveSoMuchEnergyIn) {
  // 1 J in 50 ns are 20 MW, in 200 ns 5 MW.
  EXPECT_THAT(convex_cost(options_of({{1, 5}, {1 + 50e-9, 4}})).slope_nw, IsEmpty());
  EXPECT_EQ(convex_cost(options_of({{1, 5}, {1 + 50e-9, 4}})).fastest_ps(), ps_from_s(1 + 50e-9));
  EXPECT_EQ(convex_cost(options_of({{1, 5}, {1 + 200e-9, 4}})).slope_nw.size(), 1U);
}

TEST(ConvexCostOf, EndsWhereNothingToTheNanowattIsSaved) {
  const ConvexCost cost = convex_cost(options_of({{1, 5}, {2, 4}, {3, 4 - 1e-10}}));
  EXPECT_EQ(cost.slowest_ps(), ps_from_s(2));
}

TEST(ConvexCostOf, IsAPointForOneOption) {
  const ConvexCost cost = convex_cost(options_of({{0.25, -3}}));
  EXPECT_THAT(cost.time_ps, ElementsAre(250'000'000'000));
  EXPECT_THAT(cost.slope_nw, IsEmpty());
  EXPECT_DOUBLE_EQ(energy_j_at(cost, cost.fastest_ps()), -3);
}

TEST(ConvexCostOf, RefusesWhatIsNoOp) {
  EXPECT_THROW((void)convex_cost({}), InputError);
  EXPECT_THROW((void)convex_cost(options_of({{1, 1}, {1.1 * kMaxTimeS, 0}})), InputError);
}

TEST(ConvexCostOf, TakesTheLargestProfiledValues) {
  const ConvexCost cost = convex_cost(options_of({{1, 1e9}, {kMaxTimeS, -1e11}}));
  EXPECT_EQ(cost.slowest_ps(), ps_from_s(kMaxTimeS));
  EXPECT_NEAR(energy_j_at(cost, cost.slowest_ps()), -1e11, 1e-9 * kMaxTimeS);
}

TEST(ConvexCostOf, IsConvexAndNeverAboveItsOptions) {
  std::mt19937_64 random(41);
  for (int i = 0; i < 2000; ++i) {
    // Times from picoseconds to seconds apart, where rounding them bends the hull most and least.
    std::vector<profile::Option> options;
    const auto count = random_in(random, 1, 12);
    const auto unit_ps = static_cast<double>(std::int64_t{1} << random_in(random, 0, 40));
    double time_s = 1e-3;
    double energy_j = 10;
    for (std::int64_t k = 0; k < count; ++k) {
      time_s += static_cast<double>(random_in(random, 1, 1000)) / 300 * unit_ps / kPsPerSecond;
      energy_j -= static_cast<double>(random_in(random, 1, 1000)) * 1e-6;
      options.push_back({0, time_s, 0, energy_j});
    }
    const ConvexCost cost = convex_cost(options);
    ASSERT_EQ(cost.time_ps.size(), cost.slope_nw.size() + 1);
    for (std::size_t j = 1; j < cost.time_ps.size(); ++j) EXPECT_LT(cost.time_ps[j - 1], cost.time_ps[j]);
    for (std::size_t j = 1; j < cost.slope_nw.size(); ++j) EXPECT_GT(cost.slope_nw[j - 1], cost.slope_nw[j]);
    for (const profile::Option& option : options) {
      const TimePs at_ps = ps_not_below_s(option.time_s);
      if (at_ps < cost.fastest_ps()) continue;  // dropped
      const double tolerance_j = 1e-9 * (options.back().time_s - options.front().time_s) + 1e-14;
      EXPECT_LE(energy_j_at(cost, std::min(at_ps, cost.slowest_ps())), option.effective_energy_j + tolerance_j)
          << "instance " << i << ", unit " << unit_ps << " ps";
    }
    if (HasFailure()) return;
  }
}

TEST(ConvexCostOf, EqualsTheCurveThatVerificationDerives) {
  std::mt19937_64 random(44);
  for (int i = 0; i < 500; ++i) {
    const auto unit_ps = static_cast<double>(std::int64_t{1} << random_in(random, 0, 38));
    std::vector<profile::Measurement> measurements;
    for (int clock_mhz = 1400; clock_mhz > 1100; clock_mhz -= 15) {
      const double time_s = 1e-3 + static_cast<double>(random_in(random, 1, 3000)) / 300 * unit_ps / kPsPerSecond;
      measurements.push_back({clock_mhz, time_s, 1 + static_cast<double>(random_in(random, 1, 1000)) * 1e-6});
    }
    const double blocking_power_w = static_cast<double>(random_in(random, 0, 100));
    const ConvexCost cost = convex_cost(pareto_options(measurements, blocking_power_w));
    const verifier::CostCurve curve(measurements, blocking_power_w);
    ASSERT_EQ(cost.fastest_ps(), curve.fastest_ps()) << "instance " << i;
    ASSERT_EQ(cost.slowest_ps(), curve.slowest_ps()) << "instance " << i;
    for (const TimePs time_ps : cost.time_ps) {
      EXPECT_TRUE(cost.energy_zj(time_ps) == curve.energy_zj(time_ps)) << "instance " << i << " at " << time_ps;
    }
    if (HasFailure()) return;
  }
}

TEST(Makespan, IsTheLongestPath) {
  const ProblemInstance diamond =
      instance_of({{{1}, {}, 0}, {{1}, {}, 0}, {{1}, {}, 0}, {{1}, {}, 0}}, {{0, 1}, {0, 2}, {1, 3}, {2, 3}});
  EXPECT_EQ(makespan_ps(diamond, std::vector<TimePs>{1, 10, 100, 1000}), 1101);
  EXPECT_EQ(makespan_ps(diamond, std::vector<TimePs>{1, 500, 100, 1000}), 1501);
  EXPECT_EQ(makespan_ps(instance_of({{{1}, {}, 0}, {{1}, {}, 0}}), std::vector<TimePs>{7, 5}), 7) << "side by side";
}

TEST(Makespan, EqualsTheLongestOfAllPaths) {
  std::mt19937_64 random(42);
  for (int i = 0; i < 100; ++i) {
    const ProblemInstance instance = random_instance(random, {1, 9, 0, 1000, 1, 1});
    std::vector<TimePs> time_ps;
    for (int op = 0; op < instance.op_count(); ++op) time_ps.push_back(random_in(random, 0, 1000));
    const std::function<TimePs(int)> longest_from = [&](int op) {
      TimePs behind_ps = 0;
      for (const schedule::DagEdge& edge : instance.edges) {
        if (edge.from == op) behind_ps = std::max(behind_ps, longest_from(edge.to));
      }
      return time_ps[static_cast<std::size_t>(op)] + behind_ps;
    };
    TimePs longest_ps = 0;
    for (int op = 0; op < instance.op_count(); ++op) longest_ps = std::max(longest_ps, longest_from(op));
    EXPECT_EQ(makespan_ps(instance, time_ps), longest_ps) << "instance " << i;
  }
}

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
