#include "planning/planner/planners/rounding.h"

#include <gmock/gmock.h>

#include <random>
#include <string>
#include <vector>

#include "planning/planner/random_instances.h"
#include "planning/planner/random_pipelines.h"
#include "planning/planner/small_models.h"

namespace lowgear::planner {
namespace {

using ::testing::ElementsAre;
using Direction = RoundingRule::Direction;

std::vector<TimePs> times_of(const PlanningModel& model, const std::vector<std::int32_t>& choice) {
  std::vector<TimePs> time_ps;
  for (int op = 0; op < model.instance.op_count(); ++op) {
    const auto k = static_cast<std::size_t>(choice[static_cast<std::size_t>(op)]);
    time_ps.push_back(model.choices_of(op).at(k).time_ps);
  }
  return time_ps;
}

/// The plan's figures are those of its clocks, and it keeps the deadline to the picosecond.
void expect_sound(const PlanningModel& model, const DiscretePlan& plan, TimePs deadline_ps) {
  ASSERT_EQ(plan.choice.size(), static_cast<std::size_t>(model.instance.op_count()));
  EnergyZj effective_energy_zj = 0;
  for (int op = 0; op < model.instance.op_count(); ++op) {
    const auto k = static_cast<std::size_t>(plan.choice[static_cast<std::size_t>(op)]);
    effective_energy_zj += model.choices_of(op).at(k).effective_energy_zj;
  }
  EXPECT_TRUE(plan.effective_energy_zj == effective_energy_zj);
  EXPECT_EQ(plan.makespan_ps, makespan_ps(model.instance, times_of(model, plan.choice)));
  EXPECT_LE(plan.makespan_ps, deadline_ps);
}

/// None of the ops keeps the deadline at its next slower clock, the others staying as they are.
void expect_no_slack(const PlanningModel& model, const DiscretePlan& plan, TimePs deadline_ps) {
  for (int op = 0; op < model.instance.op_count(); ++op) {
    std::vector<std::int32_t> slower = plan.choice;
    const std::int32_t k = ++slower[static_cast<std::size_t>(op)];
    if (static_cast<std::size_t>(k) == model.choices_of(op).size()) continue;
    EXPECT_GT(makespan_ps(model.instance, times_of(model, slower)), deadline_ps) << "op " << op;
  }
}

TEST(DiscretePlan, AddsBlockingEnergyOfTheWholeIteration) {
  const DiscretePlan plan{{}, 1000, -50};
  EXPECT_TRUE(plan.total_energy_zj(7) == 6950);
}

TEST(Rounder, RoundsSoThatDeadlinesHoldAndNoTimeIsLeft) {
  std::mt19937_64 random(61);
  for (int i = 0; i < 60; ++i) {
    const PlanningModel model = random_pipeline(random).model();
    const Frontier frontier = solve_frontier(model.instance);
    DeadlineSolver solver(model.instance, nullptr);
    Rounder rounder(model);
    for (int k = 0; k < 4; ++k) {
      TimePs deadline_ps = random_in(random, frontier.fastest_ps(), frontier.slowest_ps());
      if (k == 0) deadline_ps = frontier.fastest_ps();
      if (k == 1) deadline_ps = frontier.slowest_ps();
      const ContinuousPlan continuous = solver.solve(deadline_ps);
      for (const Direction direction : {Direction::forward, Direction::backward}) {
        for (const int price_sixteenths : {0, 5, 13, 16}) {
          SCOPED_TRACE("pipeline " + std::to_string(i) + ", deadline " + std::to_string(deadline_ps));
          const DiscretePlan plan = rounder.round(continuous, {direction, price_sixteenths});
          expect_sound(model, plan, deadline_ps);
          expect_no_slack(model, plan, deadline_ps);
        }
      }
    }
    if (HasFailure()) return;
  }
}

TEST(Rounder, ReclaimsSlackOfAnyPlan) {
  std::mt19937_64 random(62);
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE("pipeline " + std::to_string(i));
    const PlanningModel model = random_pipeline(random).model();
    Rounder rounder(model);
    std::vector<std::int32_t> choice;
    for (int op = 0; op < model.instance.op_count(); ++op) {
      const auto slowest = static_cast<std::int64_t>(model.choices_of(op).size()) - 1;
      choice.push_back(static_cast<std::int32_t>(random_in(random, 0, slowest)));
    }
    const TimePs present_ps = rounder.makespan_ps(choice);
    for (const TimePs deadline_ps : {present_ps, present_ps + present_ps / 20, 3 * present_ps}) {
      const DiscretePlan plan = rounder.reclaim_slack(choice, deadline_ps);
      expect_sound(model, plan, deadline_ps);
      expect_no_slack(model, plan, deadline_ps);
      for (std::size_t op = 0; op < choice.size(); ++op) EXPECT_GE(plan.choice[op], choice[op]) << "only slower";
    }
    if (HasFailure()) return;
  }
}

TEST(Rounder, TradesOnlyForLessEnergyWithinTheDeadline) {
  std::mt19937_64 random(63);
  int gained = 0;
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE("pipeline " + std::to_string(i));
    const PlanningModel model = random_pipeline(random).model();
    const Frontier frontier = solve_frontier(model.instance);
    DeadlineSolver solver(model.instance, nullptr);
    Rounder rounder(model);
    for (int k = 0; k < 4; ++k) {
      const TimePs deadline_ps = random_in(random, frontier.fastest_ps(), frontier.slowest_ps());
      const DiscretePlan before = rounder.round(solver.solve(deadline_ps), {Direction::forward, 0});
      DiscretePlan plan = before;
      rounder.trade_between_neighbours(plan, deadline_ps);
      expect_sound(model, plan, deadline_ps);
      expect_no_slack(model, plan, deadline_ps);
      EXPECT_TRUE(plan.effective_energy_zj <= before.effective_energy_zj);
      gained += plan.effective_energy_zj < before.effective_energy_zj ? 1 : 0;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(gained, 20) << "of 240";
}

TEST(Rounder, GivesLeftOverTimeToWhatComesNextInItsDirection) {
  // Two alike in a row; in the continuous optimum each takes 15, and there are only 10 and 20.
  const std::vector<SmallChoice> op{{10, 100}, {20, 50}};
  const PlanningModel model = chain_model({op, op});
  const ContinuousPlan continuous{30, {15, 15}, {0, 15}, {15, 30}, {5, 5}};
  Rounder rounder(model);
  EXPECT_THAT(rounder.round(continuous, {Direction::forward, 0}).choice, ElementsAre(0, 1));
  EXPECT_THAT(rounder.round(continuous, {Direction::backward, 0}).choice, ElementsAre(1, 0));
}

TEST(Rounder, SavesTimeUpForAWholeStepWhereThePriceSaysSo) {
  // The second clock saves next to nothing; the third saves much. At no price each op takes the second as soon as it
  // fits, and there is never time enough for the third.
  const std::vector<SmallChoice> op{{10, 1000}, {14, 990}, {20, 600}};
  const PlanningModel model = chain_model({op, op});
  const ContinuousPlan continuous{30, {15, 15}, {0, 15}, {15, 30}, {40, 40}};
  Rounder rounder(model);
  EXPECT_THAT(rounder.round(continuous, {Direction::forward, 0}).choice, ElementsAre(1, 1));
  EXPECT_THAT(rounder.round(continuous, {Direction::forward, 16}).choice, ElementsAre(0, 2));
  EXPECT_THAT(rounder.round(continuous, {Direction::backward, 16}).choice, ElementsAre(2, 0));
}

TEST(Rounder, TradesAStepOfOneForSeveralOfTheNext) {
  const std::vector<SmallChoice> op{{10, 1000}, {14, 990}, {20, 600}};
  const PlanningModel model = chain_model({op, op});
  Rounder rounder(model);
  DiscretePlan plan = rounder.reclaim_slack({1, 1}, 30);
  ASSERT_THAT(plan.choice, ElementsAre(1, 1));
  rounder.trade_between_neighbours(plan, 30);
  EXPECT_TRUE(plan.effective_energy_zj == 1600);
  EXPECT_EQ(plan.makespan_ps, 30);
}

TEST(Rounder, KnowsTheMakespanOfClocks) {
  const PlanningModel model = chain_model({{{10, 100}, {20, 50}}, {{7, 100}, {9, 50}}});
  Rounder rounder(model);
  EXPECT_EQ(rounder.makespan_ps(std::vector<std::int32_t>{0, 0}), 17);
  EXPECT_EQ(rounder.makespan_ps(std::vector<std::int32_t>{1, 0}), 27);
  EXPECT_EQ(rounder.makespan_ps(std::vector<std::int32_t>{1, 1}), 29);
  EXPECT_EQ(&rounder.model(), &model);
}

}  // namespace
}  // namespace lowgear::planner
