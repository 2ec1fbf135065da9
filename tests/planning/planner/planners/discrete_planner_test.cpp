#include "planning/planner/planners/discrete_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "planning/planner/planners/rounding.h"
#include "planning/planner/progress_log.h"
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

std::vector<std::int32_t> random_choice(const PlanningModel& model, std::mt19937_64& random) {
  std::vector<std::int32_t> choice;
  for (int op = 0; op < model.instance.op_count(); ++op) {
    const auto last = static_cast<std::int64_t>(model.choices_of(op).size()) - 1;
    choice.push_back(static_cast<std::int32_t>(random_in(random, 0, last)));
  }
  return choice;
}

/// Against a makespan of all ops with the mixed clocks.
TEST(SplitPlan, HasTheMakespanOfTheMixedClocks) {
  std::mt19937_64 random(81);
  for (int i = 0; i < 100; ++i) {
    const PlanningModel model = random_pipeline(random).model();
    Rounder rounder(model);
    const std::vector<std::int32_t> first = random_choice(model, random);
    const std::vector<std::int32_t> rest = random_choice(model, random);
    const std::span<const std::int32_t> order = rounder.graph().order();
    const SplitPlan split(model, rounder.graph(), order, first, rest);
    std::vector<std::int32_t> mixed = rest;
    for (std::size_t count = 0; count <= order.size(); ++count) {
      ASSERT_EQ(split.makespan_ps(count), rounder.makespan_ps(mixed)) << "pipeline " << i << ", " << count << " ops";
      if (count == order.size()) break;
      const auto op = static_cast<std::size_t>(order[count]);
      mixed[op] = first[op];
    }
  }
}

/// The planner of a model, with what it stands on.
class PreparedPlanner {
 public:
  explicit PreparedPlanner(const PlanningModel& model, Progress* progress = nullptr)
      : checkpoints_(model.instance),
        frontier_(solve_frontier(model.instance, std::array<FrontierObserver*, 1>{&checkpoints_})),
        solver_(model.instance, &checkpoints_),
        work_(progress),
        planner_(model, solver_, &work_) {
    planner_.prepare(frontier_);
  }

  [[nodiscard]] const Frontier& frontier() const { return frontier_; }
  [[nodiscard]] DiscretePlan plan(TimePs deadline_ps) { return planner_.plan(deadline_ps); }

 private:
  Checkpoints checkpoints_;
  Frontier frontier_;
  DeadlineSolver solver_;
  WorkReport work_;
  DiscretePlanner planner_;
};

/// T_min, T*, and times between.
std::vector<TimePs> deadlines_of(const Frontier& frontier, int between, std::mt19937_64& random) {
  std::vector<TimePs> deadlines_ps{frontier.fastest_ps(), frontier.slowest_ps()};
  for (int k = 0; k < between; ++k) {
    deadlines_ps.push_back(random_in(random, frontier.fastest_ps(), frontier.slowest_ps()));
  }
  return deadlines_ps;
}

TEST(DiscretePlanner, KeepsEveryDeadlineAndItsBound) {
  std::mt19937_64 random(81);
  for (int i = 0; i < 24; ++i) {
    SCOPED_TRACE("pipeline " + std::to_string(i));
    const PlanningModel model = random_pipeline(random).model();
    PreparedPlanner planner(model);
    const Frontier& frontier = planner.frontier();
    Rounder rounder(model);
    for (const TimePs deadline_ps : deadlines_of(frontier, 6, random)) {
      const DiscretePlan plan = planner.plan(deadline_ps);
      EXPECT_LE(plan.makespan_ps, deadline_ps);
      EXPECT_GE(plan.makespan_ps, frontier.fastest_ps());
      EXPECT_EQ(plan.makespan_ps, rounder.makespan_ps(plan.choice));
      const double energy_j = j_from_zj(plan.total_energy_zj(model.instance.blocking_power_nw));
      EXPECT_GE(energy_j, frontier.lower_bound_j_at(plan.makespan_ps) * (1 - 1e-9));
    }
    if (HasFailure()) return;
  }
}

/// Time and total energy of an assignment of clocks.
struct Assignment {
  TimePs makespan_ps = 0;
  EnergyZj total_energy_zj = 0;
};

/// All assignments that none as fast beats, fastest first; none when there are more than can be tried.
std::optional<std::vector<Assignment>> all_assignments(const PlanningModel& model) {
  constexpr double kMost = 60'000;
  double count = 1;
  for (int op = 0; op < model.instance.op_count(); ++op) count *= static_cast<double>(model.choices_of(op).size());
  if (count > kMost) return std::nullopt;

  Rounder rounder(model);
  std::vector<Assignment> all;
  std::vector<std::int32_t> choice(static_cast<std::size_t>(model.instance.op_count()), 0);
  for (bool more = true; more;) {
    Assignment assignment{rounder.makespan_ps(choice), 0};
    assignment.total_energy_zj = static_cast<EnergyZj>(model.instance.blocking_power_nw) * assignment.makespan_ps;
    for (int op = 0; op < model.instance.op_count(); ++op) {
      const auto k = static_cast<std::size_t>(choice[static_cast<std::size_t>(op)]);
      assignment.total_energy_zj += model.choices_of(op)[k].effective_energy_zj;
    }
    all.push_back(assignment);
    more = false;
    for (std::size_t op = 0; op < choice.size() && !more; ++op) {  // counts up, op 0 fastest
      more = static_cast<std::size_t>(++choice[op]) < model.choices_of(static_cast<int>(op)).size();
      if (!more) choice[op] = 0;
    }
  }
  std::sort(all.begin(), all.end(), [](const Assignment& a, const Assignment& b) {
    return a.makespan_ps != b.makespan_ps ? a.makespan_ps < b.makespan_ps : a.total_energy_zj < b.total_energy_zj;
  });
  std::vector<Assignment> best;
  for (const Assignment& assignment : all) {
    if (best.empty() || assignment.total_energy_zj < best.back().total_energy_zj) best.push_back(assignment);
  }
  return best;
}

TEST(DiscretePlanner, ComesCloseToTheBestOfAllClocksOnTinyPipelines) {
  std::mt19937_64 random(82);
  int pipelines = 0;
  int plans = 0;
  int best_found = 0;
  double sum_pct = 0;
  double worst_pct = 0;
  while (pipelines < 60) {
    const PlanningModel model =
        random_pipeline(random, {.max_ranks = 3, .max_microbatches = 4, .max_clocks = 6}).model();
    const auto assignments = all_assignments(model);
    if (!assignments || assignments->size() < 8) continue;
    SCOPED_TRACE("pipeline " + std::to_string(pipelines));
    ++pipelines;
    PreparedPlanner planner(model);
    EXPECT_EQ(assignments->front().makespan_ps, planner.frontier().fastest_ps());
    for (const TimePs deadline_ps : deadlines_of(planner.frontier(), 10, random)) {
      const auto beyond = std::upper_bound(assignments->begin(), assignments->end(), deadline_ps,
                                           [](TimePs time_ps, const Assignment& a) { return time_ps < a.makespan_ps; });
      const EnergyZj least_zj = std::prev(beyond)->total_energy_zj;
      const EnergyZj found_zj = planner.plan(deadline_ps).total_energy_zj(model.instance.blocking_power_nw);
      EXPECT_TRUE(found_zj >= least_zj);
      const double gap_pct = 100 * j_from_zj(found_zj - least_zj) / j_from_zj(least_zj);
      ++plans;
      best_found += found_zj == least_zj ? 1 : 0;
      sum_pct += gap_pct;
      worst_pct = std::max(worst_pct, gap_pct);
    }
    if (HasFailure()) return;
  }
  // Found: the best for 95 % of the deadlines; 0.003 % above it on average and 0.21 % at worst.
  EXPECT_GT(best_found, plans * 85 / 100);
  EXPECT_LT(sum_pct / plans, 0.01);
  EXPECT_LT(worst_pct, 0.5);
}

TEST(DiscretePlanner, RunsAtFullSpeedWhereTheDeadlineLeavesNoTime) {
  std::mt19937_64 random(83);
  for (int i = 0; i < 10; ++i) {
    const PlanningModel model = random_pipeline(random).model();
    PreparedPlanner planner(model);
    EXPECT_EQ(planner.plan(planner.frontier().fastest_ps()).makespan_ps, planner.frontier().fastest_ps());
  }
}

TEST(DiscretePlanner, PlansWhereThereIsNothingToChoose) {
  PlanningModel model;
  model.instance.costs = {{{1000}, {}, 50}};
  model.instance.cost_of_op = {0};
  model.instance.topological_order = {0};
  model.choices = {{{1410, 1000, 50}}};
  model.rank_of_op = {0};
  PreparedPlanner planner(model);
  const DiscretePlan plan = planner.plan(1000);
  EXPECT_EQ(plan.makespan_ps, 1000);
  EXPECT_EQ(plan.choice, std::vector<std::int32_t>{0});
}

TEST(DiscretePlanner, GetsNoWorseByPreparation) {
  std::mt19937_64 random(84);
  int better = 0;
  for (int i = 0; i < 8; ++i) {
    const PlanningModel model = random_pipeline(random).model();
    PreparedPlanner prepared(model);
    DeadlineSolver solver(model.instance, nullptr);
    DiscretePlanner unprepared(model, solver);
    for (const TimePs deadline_ps : deadlines_of(prepared.frontier(), 5, random)) {
      const PowerNw power_nw = model.instance.blocking_power_nw;
      const EnergyZj prepared_zj = prepared.plan(deadline_ps).total_energy_zj(power_nw);
      const EnergyZj unprepared_zj = unprepared.plan(deadline_ps).total_energy_zj(power_nw);
      EXPECT_TRUE(prepared_zj <= unprepared_zj) << "pipeline " << i;
      better += prepared_zj < unprepared_zj ? 1 : 0;
    }
  }
  EXPECT_GT(better, 5) << "of 56";
}

TEST(DiscretePlanner, MakesTheSamePlanAgain) {
  std::mt19937_64 random(85);
  const PlanningModel model = random_pipeline(random).model();
  PreparedPlanner planner(model);
  const TimePs deadline_ps = planner.frontier().fastest_ps() / 2 + planner.frontier().slowest_ps() / 2;
  const DiscretePlan first = planner.plan(deadline_ps);
  (void)planner.plan(planner.frontier().slowest_ps());
  EXPECT_EQ(planner.plan(deadline_ps).choice, first.choice);
  EXPECT_EQ(PreparedPlanner(model).plan(deadline_ps).choice, first.choice);
}

TEST(DiscretePlanner, ReportsHowFarPreparationHasCome) {
  std::mt19937_64 random(86);
  const PlanningModel model = random_pipeline(random).model();
  ProgressLog log;
  const PreparedPlanner planner(model, &log);
  ASSERT_FALSE(log.fractions.empty());
  EXPECT_TRUE(std::is_sorted(log.fractions.begin(), log.fractions.end()));
  EXPECT_GT(log.fractions.front(), 0);
  EXPECT_DOUBLE_EQ(log.fractions.back(), 1);
}

}  // namespace

}  // namespace lowgear::planner
