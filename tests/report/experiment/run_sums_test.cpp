#include "report/experiment/run_sums.h"

#include <gtest/gtest.h>

namespace lowgear::experiment {
namespace {

/// Losses 10, 9, ..., with 100 tokens, 1 s and 5 J a step, 50 J in the first.
RunRecord falling(int steps) {
  RunRecord run;
  for (int i = 0; i < steps; ++i) {
    run.steps.push_back({.work = 100, .time_s = 1, .energy_j = i == 0 ? 50 : 5, .loss = 10.0 - i});
  }
  return run;
}

TEST(RunSums, CountEveryStep) {
  const RunSums sums = all_sums(falling(4));
  EXPECT_EQ(sums.work, 400);
  EXPECT_EQ(sums.time_s, 4);
  EXPECT_EQ(sums.energy_j, 65);
}

TEST(RunSums, AStepThatReachesTheWorkCountsInProportion) {
  EXPECT_DOUBLE_EQ(sums_at_work(falling(4), 250).energy_j, 57.5);
  EXPECT_DOUBLE_EQ(sums_at_work(falling(4), 400).energy_j, 65);
}

TEST(RunSums, MeansLeaveOutWhatSettles) {
  EXPECT_DOUBLE_EQ(mean_per_work(falling(4), 2).energy_j, 0.05);
  EXPECT_DOUBLE_EQ(mean_per_work(falling(1), 2).energy_j, 0.5) << "there is no other step";
}

TEST(RunSums, LossAtEqualTokensIsTheMeanBeforeThem) {
  EXPECT_EQ(loss_at_work(falling(10), 1000, 50), 1);
  EXPECT_EQ(loss_at_work(falling(10), 1000, 200), 1.5);
  EXPECT_EQ(loss_at_work(falling(10), 599, 200), 6.5) << "only whole steps";
  EXPECT_FALSE(loss_at_work(falling(10), 99, 200));
}

TEST(RunSums, LossAtEqualEnergyCountsAllEnergyBefore) {
  EXPECT_EQ(loss_at_energy(falling(10), 65, 100), 7);
  EXPECT_EQ(loss_at_energy(falling(10), 64, 100), 8);
  EXPECT_FALSE(loss_at_energy(falling(10), 49, 100));
}

TEST(RunSums, EnergyToALossIsThatOfAllStepsUntilThen) {
  EXPECT_EQ(sums_at_loss(falling(10), 7, 100)->energy_j, 65);
  EXPECT_EQ(sums_at_loss(falling(10), 7, 300)->energy_j, 70) << "the mean over three steps falls later";
  EXPECT_FALSE(sums_at_loss(falling(10), 0.5, 100));
}

TEST(RunSums, OneGoodStepIsNotALossThatWasReached) {
  RunRecord run = falling(8);
  run.steps[1].loss = 2;
  EXPECT_EQ(sums_at_loss(run, 4, 300)->time_s, 8) << "the mean of 5, 4 and 3";
}

TEST(RunSums, AHeldOutLossIsTheLastOneBefore) {
  RunRecord run = falling(4);
  EXPECT_FALSE(held_out_loss_at_work(run, 400));
  run.steps[1].held_out_loss = 8;
  run.steps[3].held_out_loss = 6;
  EXPECT_FALSE(held_out_loss_at_work(run, 199));
  EXPECT_EQ(held_out_loss_at_work(run, 399), 8) << "only whole steps";
  EXPECT_EQ(held_out_loss_at_work(run, 400), 6);
}

TEST(RunSums, AStepWithoutLossHasNoMean) {
  RunRecord run = falling(4);
  run.steps[3].loss.reset();
  EXPECT_FALSE(loss_at_work(run, 400, 100));
  EXPECT_EQ(loss_at_work(run, 300, 100), 8);
}

}  // namespace
}  // namespace lowgear::experiment
