#include "planning/planner/frontier/sandwich.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planning/planner/frontier/frontier.h"
#include "planning/planner/random_instances.h"
#include "planning/planner/sample_folder.h"
#include "planning/planner/small_instances.h"
#include "planning/planner/verifier/verify.h"
#include "planning/schedule/generators.h"

namespace lowgear::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(WithRoundedSlopes, RoundsToMultiplesAndJoinsEqualPieces) {
  const ProblemInstance instance = instance_of({{{1, 2, 3, 4, 5}, {104, 96, 31, 2}, 7}});
  const ConvexCost rounded = with_rounded_slopes(instance, {10, 5}).costs.front();
  EXPECT_THAT(rounded.slope_nw, ElementsAre(100, 30)) << "the last saves nothing to ten";
  EXPECT_THAT(rounded.time_ps, ElementsAre(1, 3, 4));
  EXPECT_TRUE(rounded.energy_at_fastest_zj == 7);
}

/// A pipeline of ranks that differ or not, with a few or many clocks, some of them in round numbers (so that solutions
/// lie on lines), and slopes over some orders of magnitude.
SampleRun random_run(std::mt19937_64& random) {
  constexpr std::array kNames{"1f1b", "gpipe", "zb-h1", "merak-early-recompute"};
  SampleRun run;
  const auto ranks = static_cast<int>(random_in(random, 1, 6));
  run.schedule = schedule::make_schedule(
      {kNames.at(random() % kNames.size()), ranks, static_cast<int>(random_in(random, 1, 16)), 1, {}});
  run.profile = profile::StageProfile(ranks);
  const bool in_round_numbers = random() % 2 == 0;
  const std::int64_t clocks = random_in(random, 1, 25);
  constexpr auto kKinds = static_cast<int>(kScheduledKinds.size());
  for (int cell = 0; cell < ranks * kKinds; ++cell) {
    double time_ms = 10 * static_cast<double>(random_in(random, 1, 9));
    for (int clock = 0; clock < clocks; ++clock) {
      time_ms *= 1 + 0.01 * static_cast<double>(random_in(random, -1, 8));
      const double power_w = static_cast<double>(random_in(random, 10, 40)) * (10 - 0.2 * clock);
      const double energy_j = time_ms / 1e3 * power_w;
      const profile::Measurement exact{1400 - 15 * clock, time_ms / 1e3, energy_j};
      const profile::Measurement round{exact.clock_mhz, std::ceil(time_ms) / 1e3, std::ceil(energy_j)};
      run.profile.add(cell / kKinds, kScheduledKinds.at(static_cast<std::size_t>(cell % kKinds)),
                      in_round_numbers ? round : exact);
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    run.blocking_power_w.push_back(0.01 * static_cast<double>(random_in(random, 0, 9000)));
  }
  run.sandwich_epsilon = 1e-4 * static_cast<double>(random_in(random, 1, random() % 2 == 0 ? 3 : 100));
  return run;
}

TEST(Sandwich, KeepsItsPromiseOnRandomPipelines) {
  // Verification finds the distance from the bounds, that of T* included, anew and in exact arithmetic.
  std::mt19937_64 random(4);
  for (int i = 0; i < 600; ++i) {
    const SampleRun run = random_run(random);
    const VerifyReport report = verify(planner::sample_folder(run));
    EXPECT_THAT(report.failures, IsEmpty()) << "pipeline " << i << ", epsilon " << run.sandwich_epsilon;
    if (HasFailure()) return;
  }
}

TEST(Sandwich, LiesWithinEpsilonOfTheExactFrontier) {
  constexpr double kEpsilon = 2e-3;
  std::mt19937_64 random(6);
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE("graph " + std::to_string(i));
    const ProblemInstance instance = random_instance(random, {});
    const Frontier exact = solve_frontier(instance);
    const Frontier frontier = solve_sandwich(instance, kEpsilon).frontier;
    EXPECT_LE(frontier.epsilon(), kEpsilon);
    EXPECT_EQ(frontier.fastest_ps(), exact.fastest_ps());
    for (int k = 0; k < 20; ++k) {
      const TimePs time_ps = random_in(random, exact.fastest_ps(), exact.slowest_ps());
      const double least_j = exact.energy_j_at(time_ps);
      EXPECT_GE(frontier.energy_j_at(time_ps), least_j * (1 - 1e-12));
      EXPECT_LE(frontier.energy_j_at(time_ps), least_j * (1 + kEpsilon) * (1 + 1e-12));
      EXPECT_LE(frontier.lower_bound_j_at(time_ps), least_j * (1 + 1e-12));
    }
    if (HasFailure()) return;
  }
}

TEST(Sandwich, SolvesDeadlinesNearlyAsWellAsTheFrontier) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE("graph " + std::to_string(i));
    const ProblemInstance instance = random_instance(random, {});
    const Sandwich sandwich = solve_sandwich(instance, 2e-3);
    SandwichSolver solver(sandwich);
    for (int k = 0; k < 10; ++k) {
      const TimePs deadline_ps = random_in(random, sandwich.frontier.fastest_ps(), sandwich.frontier.slowest_ps());
      const ContinuousPlan plan = solver.solve(deadline_ps);
      EXPECT_LE(makespan_ps(instance, plan.op_time_ps), deadline_ps);
      const double energy_j = j_from_zj(effective_energy_zj(instance, plan.op_time_ps) +
                                        static_cast<EnergyZj>(instance.blocking_power_nw) * deadline_ps);
      EXPECT_LE(energy_j, sandwich.frontier.lower_bound_j_at(deadline_ps) * 1.01);
    }
    if (HasFailure()) return;
  }
}

TEST(Sandwich, KeepsItsPromiseWhereFewOpsSaveAnything) {
  // Most ops save microwatts, from which the first rounding is chosen; those that matter save a million times more.
  std::mt19937_64 random(9);
  std::vector<ConvexCost> costs;
  std::vector<std::pair<int, int>> edges;
  for (int op = 0; op < 40; ++op) {
    ConvexCost& cost = costs.emplace_back();
    cost.time_ps = {random_in(random, 1'000'000'000, 9'000'000'000)};
    cost.energy_at_fastest_zj = static_cast<EnergyZj>(2) * 1'000'000'000 * 1'000'000'000'000;
    for (int piece = 1; piece <= 6; ++piece) {
      cost.slope_nw.push_back(op % 8 == 0 ? random_in(random, 400, 440) * 1'000'000'000 / piece : 7000 - 1000 * piece);
      cost.time_ps.push_back(cost.time_ps.back() + random_in(random, 200'000'000, 900'000'000));
    }
    if (op > 0) edges.emplace_back(op - 1, op);
  }
  const ProblemInstance instance = instance_of(costs, edges, 10'000'000'000);
  const Frontier exact = solve_frontier(instance);
  for (const double epsilon : {1e-2, 1e-4, 1e-6}) {
    const Frontier frontier = solve_sandwich(instance, epsilon).frontier;
    EXPECT_LE(frontier.epsilon(), epsilon);
    EXPECT_EQ(frontier.fastest_ps(), exact.fastest_ps());
  }
}

TEST(Sandwich, IsTheExactFrontierInTheEnd) {
  constexpr double kFinerThanAnyRounding = 1e-15;
  std::mt19937_64 random(10);
  for (int i = 0; i < 20; ++i) {
    const ProblemInstance instance = random_instance(random, {});
    const Frontier exact = solve_frontier(instance);
    const Frontier frontier = solve_sandwich(instance, kFinerThanAnyRounding).frontier;
    EXPECT_LT(frontier.epsilon(), 1e-14) << "only what doubles cannot show";
    EXPECT_EQ(frontier.fastest_ps(), exact.fastest_ps());
    EXPECT_EQ(frontier.slowest_ps(), exact.slowest_ps());
  }
}

TEST(Sandwich, SolvesADeadlineOnTheFinestPartThatReachesIt) {
  std::mt19937_64 random(14);
  const ProblemInstance instance = random_instance(random, {.min_ops = 30, .max_ops = 30});
  const Sandwich sandwich = solve_sandwich(instance, 1e-5);
  ASSERT_GT(sandwich.parts.size(), 1U);
  EXPECT_EQ(sandwich.part_for(sandwich.frontier.slowest_ps()), sandwich.parts.size() - 1);
  for (std::size_t part = 0; part < sandwich.parts.size(); ++part) {
    const TimePs fastest_ps = sandwich.parts[part].fastest_ps;
    EXPECT_LE(sandwich.parts[sandwich.part_for(fastest_ps)].fastest_ps, fastest_ps);
    EXPECT_GE(sandwich.part_for(fastest_ps), part);
  }
}

}  // namespace
}  // namespace lowgear::planner
