#include "base/core/energy/energy_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace lowgear {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// 8 s of a GPU with a limit of 400 W, by its counter and by the power readings.
StatedEnergy eight_seconds(double counter_j, double readings_j) {
  return {.energy_j = counter_j,
          .time_s = 8,
          .period_s = 0.1,
          .highest_power_w = highest_gpu_power_w(400),
          .readings = IntegratedPower{.energy_j = readings_j, .error_j = 20}};
}

TEST(EnergyCheck, AcceptsWhatHonestGpusShow) {
  EXPECT_EQ(check_energy(eight_seconds(1862, 1862)).fault, EnergyFault::none);
  EXPECT_EQ(check_energy(eight_seconds(1862, 1893)).fault, EnergyFault::none);
  // The worst that an H100 showed: 6.9 % (docs/hardware.md).
  const EnergyVerdict worst = check_energy(
      {.energy_j = 3983, .time_s = 6, .readings = IntegratedPower{.energy_j = 3983 * (1 - 0.069), .error_j = 0}});
  EXPECT_EQ(worst.fault, EnergyFault::none);
  EXPECT_EQ(worst.reason, "");
  EXPECT_TRUE(worst.usable());
}

TEST(EnergyCheck, StatesADifferenceThatIsNoContradiction) {
  const EnergyVerdict verdict = check_energy(eight_seconds(1500, 1862));
  EXPECT_EQ(verdict.fault, EnergyFault::differs);
  EXPECT_TRUE(verdict.usable());
  EXPECT_THAT(verdict.reason, AllOf(HasSubstr("1500 J"), HasSubstr("1862 J"), HasSubstr("-19 %")));
}

TEST(EnergyCheck, RefusesACounterThatContradictsThePowerReadings) {
  for (const double share : {0.0001, 0.5, 0.57, 0.67, 1.5, 1.8}) {
    const EnergyVerdict verdict = check_energy(eight_seconds(1862 * share, 1862));
    EXPECT_EQ(verdict.fault, EnergyFault::contradicts) << share;
    EXPECT_FALSE(verdict.usable());
  }
  EXPECT_EQ(check_energy(eight_seconds(1061, 1862)).reason,
            "shows 1061 J in 8 s, and the power readings make 1862 J: -43 %");
}

TEST(EnergyCheck, LeavesRoomForTheErrorsOfBoth) {
  StatedEnergy stated = eight_seconds(1061, 1862);
  stated.error_j = 400;
  EXPECT_EQ(check_energy(stated).fault, EnergyFault::differs);
  stated.readings->error_j = 400;
  EXPECT_EQ(check_energy(stated).fault, EnergyFault::none);
}

TEST(EnergyCheck, RefusesMoreThanTheGpuCanDraw) {
  const EnergyVerdict verdict =
      check_energy({.energy_j = 1e6, .time_s = 2.4, .highest_power_w = highest_gpu_power_w(400)});
  EXPECT_EQ(verdict.fault, EnergyFault::too_high);
  EXPECT_EQ(verdict.reason, "shows 1000000 J in 2.4 s, 416667 W on average, and at most 800 W are possible");
  EXPECT_EQ(check_energy({.energy_j = 1e6, .time_s = 2.4}).fault, EnergyFault::too_high);
  EXPECT_EQ(check_energy({.energy_j = 2000, .time_s = 2.4}).fault, EnergyFault::none);
  EXPECT_EQ(check_energy({.energy_j = 1e4, .time_s = 2.4, .highest_power_w = kHighestCpuPowerW}).fault,
            EnergyFault::too_high);
}

TEST(EnergyCheck, AllowsAStepOfTheCounterMoreThanTheTime) {
  // Two readings 10 ms apart with a step of 100 ms at 700 W between them.
  StatedEnergy step{.energy_j = 70, .time_s = 0.01, .period_s = 0.1, .highest_power_w = highest_gpu_power_w(700)};
  EXPECT_EQ(check_energy(step).fault, EnergyFault::none);
  step.period_s = 0;
  EXPECT_EQ(check_energy(step).fault, EnergyFault::too_high);
}

TEST(EnergyCheck, RefusesEnergyWithoutTime) {
  EXPECT_EQ(check_energy({.energy_j = 1, .time_s = 0}).fault, EnergyFault::too_high);
  EXPECT_EQ(check_energy({.energy_j = 1, .time_s = -5}).fault, EnergyFault::too_high);
  EXPECT_EQ(check_energy({.energy_j = 0, .time_s = 0}).fault, EnergyFault::none);
}

TEST(EnergyCheck, RefusesACounterThatStandsStill) {
  const EnergyVerdict still = check_energy(eight_seconds(0, 1862));
  EXPECT_EQ(still.fault, EnergyFault::stands_still);
  EXPECT_EQ(still.reason, "shows no energy for 8 s, and the power readings 233 W on average");
  EXPECT_EQ(check_energy({.energy_j = 0, .time_s = 0.7, .period_s = 0.1}).reason, "shows no energy for 0.7 s");
  EXPECT_EQ(check_energy({.energy_j = 0, .time_s = 0.5, .period_s = 0.1}).fault, EnergyFault::none) << "within a step";
  EXPECT_EQ(check_energy(eight_seconds(0, 0)).fault, EnergyFault::stands_still) << "a GPU that answers draws some";
}

TEST(EnergyCheck, RefusesLessThanAGpuNeeds) {
  StatedEnergy stated = eight_seconds(1.862, 1862);  // a thousandth
  stated.lowest_power_w = kLowestGpuPowerW;
  const EnergyVerdict verdict = check_energy(stated);
  EXPECT_EQ(verdict.fault, EnergyFault::stands_still);
  EXPECT_THAT(verdict.reason, AllOf(HasSubstr("1.86 J in 8 s, 0.23 W on average"), HasSubstr("233 W")));
}

TEST(EnergyCheck, KeepsTheCounterWherePowerReadingsCannotBe) {
  for (const double readings_j : {0.0, 1.862, -1862.0, 1.862e6}) {
    EXPECT_EQ(check_energy(eight_seconds(1862, readings_j)).fault, EnergyFault::none) << readings_j;
  }
}

TEST(EnergyCheck, KnowsPowerThatCannotBe) {
  for (const double power_w : {1.5, 9.0, 400.0, 949.0}) EXPECT_EQ(why_no_power(power_w), "") << power_w;
  EXPECT_EQ(why_no_power(0, 800), "is 0 W, and a GPU that answers draws more than 1 W");
  EXPECT_EQ(why_no_power(0.3, 800), "is 0.3 W, and a GPU that answers draws more than 1 W") << "kW";
  EXPECT_EQ(why_no_power(300000, 800), "is 300000 W, and at most 800 W are possible") << "mW";
  EXPECT_NE(why_no_power(std::numeric_limits<double>::quiet_NaN()), "");
  EXPECT_NE(why_no_power(std::numeric_limits<double>::infinity()), "");
}

TEST(EnergyCheck, HoldsALongTimeAgainstTheLimitAlone) {
  const auto seconds_at = [](double time_s, double power_w) {
    return check_energy({.energy_j = power_w * time_s,
                         .time_s = time_s,
                         .period_s = 0.1,
                         .highest_power_w = highest_gpu_power_w(400),
                         .lasting_power_w = lasting_gpu_power_w(400)})
        .fault;
  };
  EXPECT_EQ(seconds_at(0.1, 700), EnergyFault::none) << "the limit's controller takes a moment";
  EXPECT_EQ(seconds_at(10, 420), EnergyFault::none);
  EXPECT_EQ(seconds_at(10, 540), EnergyFault::too_high);
  EXPECT_EQ(seconds_at(2, 720), EnergyFault::too_high);
}

TEST(EnergyCheck, RefusesACounterThatFallsAndWhatIsNoNumber) {
  EXPECT_EQ(check_energy({.energy_j = -100, .time_s = 1}).fault, EnergyFault::falls);
  EXPECT_EQ(check_energy({.energy_j = std::numeric_limits<double>::quiet_NaN(), .time_s = 1}).fault,
            EnergyFault::falls);
  EXPECT_EQ(check_energy({.energy_j = std::numeric_limits<double>::infinity(), .time_s = 1}).fault,
            EnergyFault::too_high);
  EXPECT_EQ(check_energy({.energy_j = 1, .time_s = std::numeric_limits<double>::quiet_NaN()}).fault,
            EnergyFault::too_high);
}

TEST(EnergyCheck, KnowsTheHighestPowerOfAGpu) {
  EXPECT_EQ(highest_gpu_power_w(400), 800);
  EXPECT_EQ(highest_gpu_power_w(std::nullopt), kHighestGpuPowerW);
  EXPECT_EQ(highest_gpu_power_w(0), kHighestGpuPowerW);
}

TEST(EnergyCheck, NamesFaultsAsMetricsDo) {
  EXPECT_EQ(name(EnergyFault::none), "none");
  EXPECT_EQ(name(EnergyFault::stands_still), "stands_still");
  EXPECT_EQ(name(EnergyFault::too_high), "too_high");
}

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

TEST(PowerIntegral, AddsUpBetweenReadings) {
  PowerIntegral power(0.1);
  power.add(100, 1);
  power.add(300, 1);
  power.add(std::nullopt, 1);
  power.add(200, 1);
  EXPECT_EQ(power.energy_j(), 100 + 200 + 200);
  EXPECT_EQ(power.covered_s(), 3);
  EXPECT_EQ(power.peak_power_w(), 300);
  EXPECT_EQ(power.until(2).energy_j, 900);
}

TEST(PowerIntegral, KnowsNothingWithoutReadings) {
  PowerIntegral power(0.1);
  EXPECT_EQ(power.until(5).energy_j, 0);
  EXPECT_FALSE(power.peak_power_w());
  EXPECT_FALSE(power.comparable());
}

/// Energy of a load of `load_w` from 1 s to 4 s, on 60 W, by readings that are means of `averaging_s`.
IntegratedPower measured(double averaging_s, double period_s, double load_w) {
  PowerIntegral power(averaging_s);
  for (double time_s = period_s; time_s <= 5; time_s += period_s) {
    const auto loaded_s = [](double until_s) { return std::clamp(until_s, 1.0, 4.0) - 1.0; };
    power.add(60 + (load_w - 60) * (loaded_s(time_s) - loaded_s(time_s - averaging_s)) / averaging_s, period_s);
  }
  return power.until(0);
}

TEST(PowerIntegral, ItsErrorCoversTheTruth) {
  const double truth_j = 5 * 60 + 3 * 340;
  for (const double averaging_s : {0.1, 1.0}) {
    const IntegratedPower power = measured(averaging_s, 0.047, 400);
    EXPECT_NEAR(power.energy_j, truth_j, power.error_j);
    EXPECT_LT(power.error_j, 340 * (averaging_s + 0.1));
  }
}

TEST(PowerIntegral, ReadingsFarApartSayLittle) {
  const IntegratedPower close = measured(0.1, 0.05, 400);
  const IntegratedPower apart = measured(0.1, 1, 400);
  EXPECT_GT(apart.error_j, 4 * close.error_j);
  EXPECT_EQ(error_j({.energy_j = 1000, .error_j = 20}), 90);
}

TEST(PowerIntegral, LeavesReadingsOutThatCannotBe) {
  PowerIntegral power(0.1, 800);
  for (const double power_w : {300.0, 0.0, 300000.0, 300.0}) power.add(power_w, 1);
  EXPECT_EQ(power.covered_s(), 2);
  EXPECT_EQ(power.energy_j(), 600);
  EXPECT_EQ(power.peak_power_w(), 300);
  EXPECT_EQ(power.impossible(), "is 300000 W, and at most 800 W are possible");
}

TEST(PowerIntegral, KnowsReadingsThatComeUnevenly) {
  const auto is_even = [](const std::vector<double>& gaps_s) {
    PowerIntegral power(0.1);
    power.add(300, 0);
    for (const double gap_s : gaps_s) power.add(300, gap_s);
    return power.is_even();
  };
  EXPECT_TRUE(is_even({1, 1.1, 0.9, 1, 1.05}));
  EXPECT_TRUE(is_even({0.01, 0.08, 0.02, 0.1})) << "each reading covers the time before it";
  EXPECT_FALSE(is_even({0.05, 0.3, 0.1, 0.25, 0.05, 0.27}));
  EXPECT_FALSE(is_even({}));
}

TEST(PowerIntegral, KnowsReadingsThatNeverChange) {
  PowerIntegral power(0.1);
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(power.is_stuck(), i >= 40);
    power.add(300, 0.05);
  }
  power.add(300.1, 0.05);
  EXPECT_FALSE(power.is_stuck());
}

}  // namespace

}  // namespace lowgear
