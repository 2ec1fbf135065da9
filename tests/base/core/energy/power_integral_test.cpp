#include "base/core/energy/power_integral.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace lowgear {
namespace {

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
