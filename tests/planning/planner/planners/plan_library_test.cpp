#include "planning/planner/planners/plan_library.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "planning/planner/random_instances.h"
#include "planning/planner/random_pipelines.h"
#include "planning/planner/small_models.h"

namespace lowgear::planner {
namespace {

using ::testing::ElementsAre;

DiscretePlan plan_of(TimePs makespan_ps, std::int64_t effective_energy_zj) {
  return {{}, makespan_ps, effective_energy_zj};
}

std::vector<TimePs> makespans_of(const PlanLibrary& library) {
  std::vector<TimePs> makespans_ps;
  for (const DiscretePlan& plan : library.plans()) makespans_ps.push_back(plan.makespan_ps);
  return makespans_ps;
}

TEST(PlanLibrary, KeepsPlansThatNoMixtureBeats) {
  PlanLibrary library(0);
  library.add(plan_of(10, 100));
  library.add(plan_of(30, 40));
  library.add(plan_of(20, 75));
  EXPECT_THAT(makespans_of(library), ElementsAre(10, 30)) << "half of each uses 70";
  library.add(plan_of(20, 65));
  EXPECT_THAT(makespans_of(library), ElementsAre(10, 20, 30));
  library.add(plan_of(15, 70));
  EXPECT_THAT(makespans_of(library), ElementsAre(10, 15, 30)) << "now 20 at 65 is beaten";
  library.add(plan_of(5, 30));
  EXPECT_THAT(makespans_of(library), ElementsAre(5)) << "faster, and less than all";
}

TEST(PlanLibrary, KeepsTheBetterOfTwoOfOneMakespan) {
  PlanLibrary library(0);
  library.add(plan_of(10, 100));
  library.add(plan_of(10, 90));
  library.add(plan_of(10, 95));
  ASSERT_EQ(library.plans().size(), 1U);
  EXPECT_TRUE(library.plans()[0].effective_energy_zj == 90);
}

TEST(PlanLibrary, CountsBlockingEnergy) {
  PlanLibrary library(7);
  library.add(plan_of(10, 100));
  library.add(plan_of(20, 40));
  EXPECT_THAT(makespans_of(library), ElementsAre(10)) << "170 against 180";
}

TEST(PlanLibrary, IsTheHullOfAllThatWasAdded) {
  std::mt19937_64 random(71);
  for (int i = 0; i < 300; ++i) {
    const PowerNw blocking_power_nw = random_in(random, 0, 20);
    PlanLibrary library(blocking_power_nw);
    std::vector<DiscretePlan> all;
    for (std::int64_t k = random_in(random, 1, 40); k > 0; --k) {
      const TimePs makespan_ps = random_in(random, 1, 60);
      all.push_back(plan_of(makespan_ps, 2000 - 30 * makespan_ps + random_in(random, 0, 400)));
      library.add(all.back());
    }
    const auto total = [&](const DiscretePlan& plan) {
      return static_cast<std::int64_t>(plan.total_energy_zj(blocking_power_nw));
    };
    // On the hull: nothing as fast or faster uses as little, and no line between a faster and a slower one passes as
    // low.
    const auto is_beaten = [&](const DiscretePlan& plan) {
      for (const DiscretePlan& fast : all) {
        const bool is_another = fast.makespan_ps != plan.makespan_ps || total(fast) != total(plan);
        if (is_another && fast.makespan_ps <= plan.makespan_ps && total(fast) <= total(plan)) return true;
        for (const DiscretePlan& slow : all) {
          if (fast.makespan_ps >= plan.makespan_ps || slow.makespan_ps <= plan.makespan_ps) continue;
          const std::int64_t line =
              total(fast) * (slow.makespan_ps - plan.makespan_ps) + total(slow) * (plan.makespan_ps - fast.makespan_ps);
          if (total(plan) * (slow.makespan_ps - fast.makespan_ps) >= line) return true;
        }
      }
      return false;
    };
    std::vector<std::pair<TimePs, std::int64_t>> expected;
    for (const DiscretePlan& plan : all) {
      if (!is_beaten(plan)) expected.emplace_back(plan.makespan_ps, total(plan));
    }
    std::sort(expected.begin(), expected.end());
    expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
    std::vector<std::pair<TimePs, std::int64_t>> found;
    for (const DiscretePlan& plan : library.plans()) found.emplace_back(plan.makespan_ps, total(plan));
    ASSERT_EQ(found, expected) << "library " << i;
  }
}

TEST(PlanLibrary, KnowsTheBestWithinADeadline) {
  PlanLibrary library(0);
  EXPECT_EQ(library.best_within(10), nullptr);
  library.add(plan_of(10, 100));
  library.add(plan_of(20, 40));
  EXPECT_EQ(library.best_within(9), nullptr);
  EXPECT_EQ(library.best_within(10)->makespan_ps, 10);
  EXPECT_EQ(library.best_within(19)->makespan_ps, 10);
  EXPECT_EQ(library.best_within(1000)->makespan_ps, 20);
}

TEST(PlanLibrary, SplicesOnlyBetweenItsPlans) {
  const std::vector<SmallChoice> op{{10, 100}, {20, 50}};
  const PlanningModel model = chain_model({op, op, op, op});
  const std::vector<std::int32_t> order{0, 1, 2, 3};
  Rounder rounder(model);
  PlanLibrary library(0);
  EXPECT_FALSE(library.splice(rounder, order, 50, 6).has_value()) << "empty";
  library.add({{0, 0, 0, 0}, 40, 400});
  library.add({{1, 1, 1, 1}, 80, 200});
  EXPECT_FALSE(library.splice(rounder, order, 39, 6).has_value());
  EXPECT_FALSE(library.splice(rounder, order, 80, 6).has_value()) << "no plan misses it";
  const auto plan = library.splice(rounder, order, 65, 6);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->makespan_ps, 60);
  EXPECT_TRUE(plan->effective_energy_zj == 300);
}

TEST(PlanLibrary, SplicesKeepTheirDeadlines) {
  std::mt19937_64 random(72);
  int spliced = 0;
  for (int i = 0; i < 40; ++i) {
    const PlanningModel model = random_pipeline(random).model();
    const Frontier frontier = solve_frontier(model.instance);
    DeadlineSolver solver(model.instance, nullptr);
    Rounder rounder(model);
    PlanLibrary library(model.instance.blocking_power_nw);
    for (int k = 0; k < 8; ++k) {
      const TimePs deadline_ps = random_in(random, frontier.fastest_ps(), frontier.slowest_ps());
      library.add(rounder.round(solver.solve(deadline_ps), {}));
    }
    const std::span<const DiscretePlan> plans = library.plans();
    const std::span<const std::int32_t> order = rounder.graph().order();
    for (int k = 0; k < 8; ++k) {
      const TimePs deadline_ps = random_in(random, frontier.fastest_ps(), frontier.slowest_ps());
      const auto plan = library.splice(rounder, order, deadline_ps, 3);
      const bool inside = plans.front().makespan_ps <= deadline_ps && deadline_ps < plans.back().makespan_ps;
      ASSERT_EQ(plan.has_value(), inside) << "pipeline " << i;
      if (!plan) continue;
      ++spliced;
      EXPECT_LE(plan->makespan_ps, deadline_ps);
      EXPECT_EQ(plan->makespan_ps, rounder.makespan_ps(plan->choice));
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(spliced, 100);
}

}  // namespace
}  // namespace lowgear::planner
