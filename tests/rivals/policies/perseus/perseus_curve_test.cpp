#include "rivals/policies/perseus/perseus_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/core/error.h"

namespace lowgear::policies {
namespace {

using testing::ElementsAre;
using testing::Field;

constexpr double kCurveUnitS = 1e-3;

std::vector<int> clocks_of(const std::vector<QuantisedOption>& options) {
  std::vector<int> clocks;
  for (const QuantisedOption& option : options) clocks.push_back(option.clock_mhz);
  return clocks;
}

TEST(WholeUnits, RoundsDownTheNumbersAsTheyAre) {
  EXPECT_EQ(whole_units(0.0529, kCurveUnitS), 52);
  // 0.3 is below 3 x 0.1 as doubles, although their quotient rounds to 3.
  EXPECT_EQ(whole_units(0.3, 0.1), 2);
  EXPECT_EQ(whole_units(0.5, 0.1), 4);
  EXPECT_EQ(whole_units(0.5, 0.25), 2);
}

TEST(WholeUnits, RefusesWhatDoesNotSuitTheUnit) {
  EXPECT_THROW((void)whole_units(0.0009, kCurveUnitS), InputError);
  EXPECT_THROW((void)whole_units(1e6, 1e-12), InputError);
}

TEST(QuantisedOptions, DropsWhatAnotherBeatsInTimeAndMeasuredEnergy) {
  const std::vector<profile::Measurement> measurements = {{1400, 0.050, 20}, {1300, 0.055, 18}, {1200, 0.060, 19},
                                                          {1100, 0.065, 16}, {1000, 0.070, 15}, {900, 0.080, 15.5}};
  EXPECT_THAT(clocks_of(quantised_options(measurements, kCurveUnitS)), ElementsAre(1400, 1300, 1100, 1000));
}

TEST(QuantisedOptions, OfEqualUnitsTheOneOfHighestEnergyStays) {
  const std::vector<profile::Measurement> measurements = {{1400, 0.0501, 20}, {1385, 0.0504, 19}, {1370, 0.0509, 18.5},
                                                          {1355, 0.0511, 18}, {1340, 0.0523, 17}, {1325, 0.0534, 16}};
  const auto options = quantised_options(measurements, kCurveUnitS);
  EXPECT_THAT(clocks_of(options), ElementsAre(1400, 1355, 1340, 1325));
  EXPECT_THAT(options, ElementsAre(Field(&QuantisedOption::units, 50), Field(&QuantisedOption::units, 51),
                                   Field(&QuantisedOption::units, 52), Field(&QuantisedOption::units, 53)));
}

TEST(QuantisedOptions, ToleratesNoiseWhereTooFewWouldBeLeft) {
  // Without tolerance 1200 and 1100 would go, as 1300 is faster and cheaper than both.
  const std::vector<profile::Measurement> measurements = {
      {1400, 0.050, 20}, {1300, 0.055, 17}, {1200, 0.057, 17.5}, {1100, 0.0565, 17.6}, {1000, 0.090, 30}};
  EXPECT_THAT(clocks_of(quantised_options(measurements, kCurveUnitS)), ElementsAre(1400, 1300, 1100, 1200));
}

TEST(QuantisedOptions, TakesTheToleranceItIsGiven) {
  const std::vector<profile::Measurement> measurements = {{1400, 0.050, 20}, {1300, 0.055, 18}, {1200, 0.060, 19},
                                                          {1100, 0.065, 16}, {1000, 0.070, 15}, {900, 0.080, 15.5}};
  // 1300 beats 1200 by 8 % of time and 5.3 % of energy, 1000 beats 900 by 12.5 % and 3.2 %.
  const auto kept = [&](double factor) {
    return clocks_of(quantised_options(measurements, kCurveUnitS, {.factor = factor, .always = true}));
  };
  EXPECT_THAT(kept(1), ElementsAre(1400, 1300, 1100, 1000));
  EXPECT_THAT(kept(0.95), ElementsAre(1400, 1300, 1100, 1000, 900));
  EXPECT_THAT(kept(0.9), ElementsAre(1400, 1300, 1200, 1100, 1000, 900));
  EXPECT_THAT(clocks_of(quantised_options(measurements, kCurveUnitS, {.factor = 0.9, .always = false})),
              ElementsAre(1400, 1300, 1100, 1000))
      << "four options are enough";
}

TEST(PerseusCurve, FitsFromTheStartItIsGiven) {
  std::vector<profile::Measurement> measurements;
  for (int i = 0; i < 8; ++i) {
    measurements.push_back({1400 - 15 * i, (50 + i + 0.5) * kCurveUnitS, 400 * std::exp(-0.05 * (50 + i)) + 12});
  }
  const PerseusCurve searched = perseus_curve(measurements, kCurveUnitS, 0);
  const PerseusCurve started =
      perseus_curve(measurements, kCurveUnitS, 0, {.noise = {}, .start = ExponentialCurve{100, -0.02, 10}});
  EXPECT_TRUE(started.fit.has_value());
  ASSERT_EQ(started.effective_energy_j.size(), searched.effective_energy_j.size());
  for (std::size_t i = 0; i < started.effective_energy_j.size(); ++i) {
    EXPECT_NEAR(started.effective_energy_j[i], searched.effective_energy_j[i], 1e-5);
  }
  measurements.resize(3);
  EXPECT_THROW((void)perseus_curve(measurements, kCurveUnitS, 0, {.noise = {}, .start = ExponentialCurve{1, -0.1, 1}}),
               InputError);
}

TEST(PerseusCurve, TakesTheSlowestClockWithinAnOpsTime) {
  PerseusCurve curve;
  curve.options = {{1400, 50, 20}, {1200, 55, 18}, {1000, 62, 17}};
  EXPECT_EQ(curve.clock_mhz(50), 1400);
  EXPECT_EQ(curve.clock_mhz(54), 1400);
  EXPECT_EQ(curve.clock_mhz(55), 1200);
  EXPECT_EQ(curve.clock_mhz(61), 1200);
  EXPECT_EQ(curve.clock_mhz(62), 1000);
  EXPECT_EQ(curve.clock_mhz(99), 1000);
}

TEST(PerseusCurve, SubtractsBlockingEnergyBeforeItFits) {
  const double blocking_power_w = 80;
  std::vector<profile::Measurement> measurements;
  for (int i = 0; i < 8; ++i) {
    const double units = 50 + i;
    const double effective_j = 15000 * std::exp(-0.15 * units) + 11;
    measurements.push_back(
        {1400 - 15 * i, (units + 0.5) * kCurveUnitS, effective_j + blocking_power_w * units * kCurveUnitS});
  }
  const PerseusCurve curve = perseus_curve(measurements, kCurveUnitS, blocking_power_w);
  EXPECT_TRUE(curve.fit.has_value());
  EXPECT_EQ(curve.fastest_units(), 50);
  EXPECT_EQ(curve.slowest_units(), 57);
  for (int i = 0; i < 8; ++i) {
    EXPECT_NEAR(curve.effective_energy_j[static_cast<std::size_t>(i)], 15000 * std::exp(-0.15 * (50 + i)) + 11, 1e-4);
  }
}

TEST(PerseusCurve, AConstantOpHasOneTime) {
  const std::vector<profile::Measurement> one = {{1400, 0.0505, 20}};
  const PerseusCurve curve = perseus_curve(one, kCurveUnitS, 80);
  EXPECT_FALSE(curve.fit.has_value());
  EXPECT_EQ(curve.fastest_units(), 50);
  EXPECT_EQ(curve.slowest_units(), 50);
  EXPECT_EQ(curve.clock_mhz(50), 1400);
  EXPECT_NEAR(curve.effective_energy_j.front(), 20 - 80 * 0.050, 1e-12);
  EXPECT_TRUE(convex_cost(curve, kCurveUnitS).slope_nw.empty());
}

TEST(PerseusCurve, TwoOptionsAreJoinedByALine) {
  const std::vector<profile::Measurement> two = {{1400, 0.050, 20}, {1000, 0.060, 14}};
  const PerseusCurve curve = perseus_curve(two, 1.0 / 1024, 80);
  EXPECT_FALSE(curve.fit.has_value());
  ASSERT_EQ(curve.effective_energy_j.size(), 11U);  // 51 to 61 units
  const double first = curve.effective_energy_j.front();
  const double last = curve.effective_energy_j.back();
  EXPECT_NEAR(curve.effective_energy_j[5], (first + last) / 2, 1e-9);
}

TEST(PerseusCurve, EndsWhereSlowerSavesNothing) {
  const std::vector<profile::Measurement> two = {{1400, 0.0505, 20}, {1000, 0.0605, 20.5}};
  // The slower one uses 0.5 J more, but its GPU would draw 0.8 J if it waited instead.
  EXPECT_EQ(perseus_curve(two, kCurveUnitS, 80).slowest_units(), 60);
  EXPECT_EQ(perseus_curve(two, kCurveUnitS, 0).slowest_units(), 50);
}

TEST(PerseusCurve, RefusesAUnitThatIsFarTooSmall) {
  const std::vector<profile::Measurement> slow = {{1400, 1.0, 300}, {1000, 2.0, 250}};
  EXPECT_THROW((void)perseus_curve(slow, 1e-6, 80), InputError);
  EXPECT_NO_THROW((void)perseus_curve(slow, 1e-4, 80));
}

TEST(PerseusCurve, ItsCostHasABreakpointAtEveryUnit) {
  std::vector<profile::Measurement> measurements;
  for (int i = 0; i < 6; ++i) measurements.push_back({1400 - 15 * i, 0.0505 + 0.001 * i, 20 * std::exp(-0.1 * i)});
  const PerseusCurve curve = perseus_curve(measurements, kCurveUnitS, 0);
  const planner::ConvexCost cost = convex_cost(curve, kCurveUnitS);
  ASSERT_EQ(cost.time_ps.size(), curve.effective_energy_j.size());
  for (std::size_t i = 0; i < cost.time_ps.size(); ++i) {
    EXPECT_EQ(cost.time_ps[i], (50 + static_cast<TimePs>(i)) * 1'000'000'000);
    EXPECT_NEAR(j_from_zj(cost.energy_zj(cost.time_ps[i])), curve.effective_energy_j[i], 1e-9);
  }
}

}  // namespace
}  // namespace lowgear::policies
