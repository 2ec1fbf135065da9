#include "base/core/energy/energy_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lowgear {
namespace {

using testing::HasSubstr;

StatedEnergy stated(double energy_j, double time_s) {
  return {.energy_j = energy_j, .time_s = time_s, .period_s = 0.1, .highest_power_w = 800};
}

TEST(EnergyRun, ExcusesAStepOfTheCounterOnceInARun) {
  EnergyRun run;
  EXPECT_TRUE(run.add(0, stated(80, 0.001)).verdict.usable());
  for (int i = 1; i < 5'000; ++i) {
    const EnergyRun::Judged judged = run.add(i, stated(80, 0.001));
    ASSERT_EQ(judged.verdict.fault, EnergyFault::too_high) << i;
    ASSERT_EQ(judged.first, 0);
    if (i > 1) continue;
    EXPECT_THAT(judged.verdict.reason, HasSubstr("160 J in 0.002 s"));
  }
}

/// Iterations of 10 ms at 400 W, of a counter that moves every 0.1 s.
TEST(EnergyRun, TakesStepsOfACounterAsTheyCome) {
  EnergyRun run;
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_TRUE(run.add(i, stated(i % 10 == 9 ? 40 : 0, 0.01)).verdict.usable()) << i;
  }
}

TEST(EnergyRun, SeesACounterThatStandsThroughShortIntervals) {
  EnergyRun run;
  EXPECT_TRUE(run.add(7, stated(3, 0.01)).verdict.usable());
  EnergyRun::Judged judged;
  int intervals = 0;
  while (judged.verdict.usable() && intervals < 1'000) judged = run.add(8 + intervals++, stated(0, 0.05));
  EXPECT_EQ(judged.verdict.fault, EnergyFault::stands_still);
  EXPECT_EQ(judged.first, 8);
  EXPECT_EQ(intervals, 13);  // above 0.6 s
  EXPECT_TRUE(run.add(100, stated(20, 0.05)).verdict.usable());
  EXPECT_TRUE(run.add(101, stated(0, 0.05)).verdict.usable());
}

TEST(EnergyRun, SeesNextToNoEnergyThroughShortIntervals) {
  EnergyRun run;
  StatedEnergy next_to_none = stated(1e-9, 0.05);
  next_to_none.lowest_power_w = 1;
  EnergyRun::Judged judged;
  int intervals = 0;
  while (judged.verdict.usable() && intervals < 1'000) judged = run.add(intervals++, next_to_none);
  EXPECT_EQ(judged.verdict.fault, EnergyFault::stands_still);
  EXPECT_EQ(intervals, 13);
}

/// Above the limit of 400 W, which a GPU keeps but for the first moment.
TEST(EnergyRun, ExcusesTheOvershootOfALimitOnce) {
  EnergyRun run;
  EnergyRun::Judged judged;
  int intervals = 0;
  StatedEnergy above = stated(60, 0.1);
  above.lasting_power_w = 460;
  while (judged.verdict.usable() && intervals < 1'000) judged = run.add(intervals++, above);
  EXPECT_EQ(judged.verdict.fault, EnergyFault::too_high);
  EXPECT_LT(intervals, 20);
  above.energy_j = 45;
  for (int i = 0; i < 200; ++i) judged = run.add(intervals++, above);
  EXPECT_TRUE(judged.verdict.usable());
}

TEST(EnergyRun, HoldsOneImpossibleEnergyAgainstNoLaterInterval) {
  EnergyRun run;
  EXPECT_EQ(run.add(0, stated(1e6, 2.4)).verdict.fault, EnergyFault::too_high);
  EXPECT_TRUE(run.add(1, stated(900, 2.4)).verdict.usable());
  EXPECT_TRUE(run.add(2, stated(80, 0.001)).verdict.usable());
}

TEST(EnergyRun, GivesIntervalsThatAreLeftOutTheirShare) {
  EnergyRun run;
  EXPECT_TRUE(run.add(0, stated(80, 0.001)).verdict.usable());
  EXPECT_FALSE(run.add(2, stated(80, 0.001)).verdict.usable());
  EXPECT_TRUE(run.add(200, stated(80, 0.001)).verdict.usable());
}

}  // namespace
}  // namespace lowgear
