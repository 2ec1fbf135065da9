#include "server/steering/clock_trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/core/error.h"

namespace lowgear::server {
namespace {

using testing::Each;
using testing::Field;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int kFullMhz = 1400;
constexpr TrialOptions kOptions{.iterations = 5, .settle_iterations = 0, .settle_s = 0.1, .measure_s = 1};

std::vector<int> supported_mhz() {
  std::vector<int> clocks_mhz;
  for (int clock_mhz = kFullMhz; clock_mhz >= 210; clock_mhz -= 10) clocks_mhz.push_back(clock_mhz);
  return clocks_mhz;
}

/// When units take in inverse proportion to the clock.
double cost_s(const std::vector<plan::ClockTrial>& trials, double full_clock_time_s) {
  double cost_s = 0;
  for (const plan::ClockTrial& trial : trials) {
    cost_s += trial.iterations * full_clock_time_s * (static_cast<double>(kFullMhz) / trial.clock_mhz - 1);
  }
  return cost_s;
}

TEST(TrialBudget, CountsWhatIterationsTakeLongerThanAtFullClocks) {
  TrialBudget budget(3);
  EXPECT_FALSE(budget.is_spent());
  budget.spend(2.5, 1);
  budget.spend(0.5, 1);
  EXPECT_DOUBLE_EQ(budget.spent_s(), 1.5);
  EXPECT_DOUBLE_EQ(budget.left_s(), 1.5);
  budget.spend(4, 1);
  EXPECT_TRUE(budget.is_spent());
  EXPECT_EQ(budget.left_s(), 0);
  EXPECT_THROW(TrialBudget(-1), InputError);
}

TEST(TrialBudget, LearnsHowSteeplyTimeRisesAtLowerClocksFromTwoOfThem) {
  TrialBudget budget(10);
  EXPECT_EQ(budget.steepness(), 1);
  budget.learn(0.9, std::pow(0.9, -7));
  EXPECT_EQ(budget.steepness(), 1) << "that of one clock may be a hiccup";
  budget.learn(0.8, std::pow(0.8, -3));
  EXPECT_NEAR(budget.steepness(), 3, 1e-9);
  budget.learn(0.9, std::pow(0.9, -2));
  EXPECT_NEAR(budget.steepness(), 2, 1e-9) << "it was one";
  budget.learn(0.7, 0.99);
  budget.learn(1, 5);
  EXPECT_NEAR(budget.steepness(), 2, 1e-9);
  EXPECT_NEAR(TrialBudget(10, budget.steepness()).steepness(), 2, 1e-9);
}

TEST(TrialBudget, ExpectsWhatTheRestOfTheTrialsCosts) {
  const std::vector<plan::ClockTrial> trials{{1, 2, 700}, {5, 2, 350}};
  EXPECT_DOUBLE_EQ(expected_cost_s(trials, 0, kFullMhz, 2, 1), 2 * 2 * (1 + 3));
  EXPECT_DOUBLE_EQ(expected_cost_s(trials, 2, kFullMhz, 2, 1), 2 * (1 + 2 * 3));
  EXPECT_DOUBLE_EQ(expected_cost_s(trials, 3, kFullMhz, 2, 2), 2 * 2 * 15);
  EXPECT_EQ(expected_cost_s(trials, 7, kFullMhz, 2, 1), 0);
}

TEST(PlanTrials, ExpectsNoLessThanWasLearned) {
  const std::vector<int> clocks{1200, 1000};
  TrialOptions options = kOptions;
  EXPECT_THAT(plan_trials(clocks, kFullMhz, 1, 3, options), SizeIs(2));
  options.steepness = 4;
  EXPECT_THAT(plan_trials(clocks, kFullMhz, 1, 3, options), IsEmpty());
}

TEST(PlanTrials, PutsSingleIterationsBetweenSuchAtFullClocks) {
  const std::vector<int> clocks{1400, 1200, 1000};
  const std::vector<plan::ClockTrial> trials = plan_trials(clocks, kFullMhz, 2.0, 100, kOptions);
  EXPECT_THAT(trials, testing::ElementsAre(plan::ClockTrial{1, 1, 1200}, plan::ClockTrial{3, 1, 1000}));
}

TEST(PlanTrials, TakesMoreOfShortIterationsAsFarAsTheyAreWanted) {
  const std::vector<int> clocks{1200, 1000};
  EXPECT_THAT(plan_trials(clocks, kFullMhz, 0.3, 100, kOptions), Each(Field(&plan::ClockTrial::iterations, 4)));
  EXPECT_THAT(plan_trials(clocks, kFullMhz, 0.01, 100, kOptions), Each(Field(&plan::ClockTrial::iterations, 15)))
      << "five that count after those in which the clock settles";
}

TEST(PlanTrials, BeginLateEnoughForEveryRank) {
  const std::vector<int> clocks{1200};
  EXPECT_EQ(plan_trials(clocks, kFullMhz, 0.01, 100, kOptions).at(0).first_iteration, 100);
}

TEST(PlanTrials, HoldNoClockThatWouldOnlySettle) {
  const std::vector<int> clocks{1200};
  for (const double full_clock_time_s : {0.005, 0.01, 0.03, 0.08}) {
    for (double left_s = 0; left_s < 0.2; left_s += 0.003) {
      for (const plan::ClockTrial& trial : plan_trials(clocks, kFullMhz, full_clock_time_s, left_s, kOptions)) {
        EXPECT_GT(trial.iterations * full_clock_time_s, kOptions.settle_s);
      }
    }
  }
}

TEST(PlanTrials, NeverCostsMoreThanIsLeft) {
  const std::vector<int> clocks{1300, 1200, 1100, 1000, 900, 700};
  for (const double full_clock_time_s : {0.05, 0.4, 2.0, 15.0}) {
    for (double left_s = 0; left_s < 40; left_s += 0.37) {
      const auto trials = plan_trials(clocks, kFullMhz, full_clock_time_s, left_s, kOptions);
      EXPECT_LE(cost_s(trials, full_clock_time_s), left_s);
    }
  }
  EXPECT_THAT(plan_trials(clocks, kFullMhz, 2, 0.1, kOptions), IsEmpty());
}

TEST(PlanTrials, CountsSettlingIterationsAsCost) {
  TrialOptions settling = kOptions;
  settling.settle_iterations = 2;
  const std::vector<int> clocks{1000};
  EXPECT_THAT(plan_trials(clocks, kFullMhz, 2, 100, settling), Each(Field(&plan::ClockTrial::iterations, 3)));
  EXPECT_THAT(plan_trials(clocks, kFullMhz, 2, 2.5, settling), IsEmpty()) << "it would only settle";
}

TEST(AffordableClocks, TakesFewerAndHigherOnesForLess) {
  const auto chosen = [](double left_s) {
    return affordable_clocks(supported_mhz(), 700, kFullMhz, 6, 2.0, left_s, kOptions);
  };
  EXPECT_THAT(chosen(20), SizeIs(6));
  EXPECT_EQ(chosen(20).back(), 700);
  EXPECT_THAT(chosen(5), SizeIs(4));
  ASSERT_THAT(chosen(1.5), SizeIs(4));
  EXPECT_GT(chosen(1.5).back(), 1000);
  EXPECT_THAT(chosen(0.01), IsEmpty());
}

}  // namespace
}  // namespace lowgear::server
