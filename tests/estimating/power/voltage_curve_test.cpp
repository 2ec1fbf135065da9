#include "estimating/power/voltage_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear::power {
namespace {

using testing::HasSubstr;

TEST(VoltageCurve, IsLinearBetweenItsPointsAndConstantBeyond) {
  const VoltageCurve curve(std::vector<VoltagePoint>{{400, 0.25, 0.04}, {600, 0.5, 0.02}, {1000, 1, 0}}, 600);
  EXPECT_DOUBLE_EQ(curve.relative_v2(100), 0.25);
  EXPECT_DOUBLE_EQ(curve.relative_v2(400), 0.25);
  EXPECT_DOUBLE_EQ(curve.relative_v2(500), 0.375);
  EXPECT_DOUBLE_EQ(curve.relative_v2(600), 0.5);
  EXPECT_DOUBLE_EQ(curve.relative_v2(900), 0.875);
  EXPECT_DOUBLE_EQ(curve.relative_v2(1200), 1);
  EXPECT_DOUBLE_EQ(curve.error(500), 0.03);
  EXPECT_FALSE(curve.is_measured(599));
  EXPECT_TRUE(curve.is_measured(600));
  EXPECT_EQ(curve.points().size(), 3U);
}

TEST(VoltageCurve, HasBoundsThatAreNotNegativeAndRiseWithTheClock) {
  const VoltageCurve curve(
      std::vector<VoltagePoint>{{345, 0.09, 0.24}, {1000, 0.36, 0.3}, {1400, 0.64, 0.032}, {1980, 1, 0}}, 1400);
  const std::vector<VoltageBounds> bounds = curve.bounds();
  ASSERT_EQ(bounds.size(), 4U);
  EXPECT_DOUBLE_EQ(bounds[2].low, 0.78 * 0.78) << "0.8 of the voltage, with an error of 0.02";
  EXPECT_DOUBLE_EQ(bounds[2].high, 0.82 * 0.82);
  EXPECT_EQ(bounds[0].low, 0) << "0.3 of the voltage, with an error of 0.4";
  EXPECT_DOUBLE_EQ(bounds[0].high, 0.49);
  EXPECT_DOUBLE_EQ(bounds[1].high, 0.82 * 0.82) << "not above that of a higher clock";
  EXPECT_EQ(bounds[3].low, 1);
  EXPECT_EQ(bounds[3].high, 1);
}

TEST(VoltageCurve, FindsTheClockOfAProduct) {
  const VoltageCurve curve(std::vector<VoltagePoint>{{400, 0.25}, {600, 0.5}, {700, 0.5}, {1000, 1}}, 600);
  for (const double clock_mhz : {50.0, 400.0, 450.0, 600.0, 650.0, 700.0, 999.0, 1000.0, 1200.0}) {
    EXPECT_NEAR(curve.clock_of_product(clock_mhz * curve.relative_v2(clock_mhz)), clock_mhz, 1e-9);
  }
  EXPECT_EQ(VoltageCurve().clock_of_product(321), 321);
}

TEST(VoltageCurve, WithoutPointsIsOne) {
  EXPECT_EQ(VoltageCurve().relative_v2(500), 1);
  EXPECT_EQ(VoltageCurve().error(500), 0);
  static_assert(std::is_trivially_copyable_v<VoltageCurve>);
}

TEST(VoltageCurve, RefusesWhatIsNoCurve) {
  const auto error = [](std::vector<VoltagePoint> points, double measured_from_mhz = 0) {
    return error_of([&] { (void)VoltageCurve(points, measured_from_mhz); });
  };
  EXPECT_THAT(error({}), HasSubstr("needs points"));
  EXPECT_THAT(error({{500, 0.5}, {500, 1}}), HasSubstr("do not rise at 500 MHz"));
  EXPECT_THAT(error({{500, 0.9}, {600, 0.8}, {700, 1}}), HasSubstr("relative_v2 of 0.8 at 600 MHz"));
  EXPECT_THAT(error({{500, 0}, {700, 1}}), HasSubstr("relative_v2 of 0 at 500 MHz"));
  EXPECT_THAT(error({{500, 0.5, -1}, {700, 1}}), HasSubstr("error -1"));
  EXPECT_THAT(error({{500, 0.5}, {700, 0.9}}), HasSubstr("not 1 at the highest clock"));
  EXPECT_THAT(error({{500, 0.5}, {700, 1}}, 800), HasSubstr("measured_from_mhz of 800"));
  EXPECT_THAT(error(std::vector<VoltagePoint>(41, {500, 1})), HasSubstr("at most 40 points, not 41"));
}

}  // namespace
}  // namespace lowgear::power
