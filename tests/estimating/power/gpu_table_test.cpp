#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"
#include "estimating/power/gpu_power.h"

namespace lowgear::power {
namespace {

/// Dynamic energy of an fp8 product on one H200 at its own clocks, relative to that at 1980 MHz.
TEST(GpuTable, HopperFollowsWhatWasMeasuredOnAnH200) {
  const VoltageCurve& curve = gpu_row("h200-sxm").power.voltage;
  EXPECT_DOUBLE_EQ(curve.relative_v2(1863), 0.863);
  EXPECT_DOUBLE_EQ(curve.relative_v2(1468), 0.639);
  EXPECT_DOUBLE_EQ(curve.relative_v2(1359), 0.571);
  EXPECT_NEAR(curve.relative_v2(1258), 0.508, 0.001) << "extrapolated in a straight line of 0.00062 a MHz";
  EXPECT_DOUBLE_EQ(curve.relative_v2(345), curve.relative_v2(1155)) << "no saving is claimed below";
  EXPECT_TRUE(curve.is_measured(1359));
  EXPECT_FALSE(curve.is_measured(1345));
  EXPECT_EQ(gpu_row("h100-sxm").power.voltage.relative_v2(1500), curve.relative_v2(1500)) << "the same chip";
  const VoltageCurve& pcie = gpu_row("h100-pcie").power.voltage;
  EXPECT_NEAR(pcie.relative_v2(1468), 0.639 / curve.relative_v2(1755), 1e-12) << "the same chip up to 1755 MHz";
}

TEST(GpuTable, SaysWhichCurvesAreAssumed) {
  EXPECT_EQ(gpu_row("h200-sxm").power.voltage_basis, Basis::measured);
  EXPECT_EQ(gpu_row("a100-80gb-sxm").power.voltage_basis, Basis::published);
  for (const char* const name : {"v100-sxm", "rtx-3090", "rtx-a6000", "b200", "gb200", "b300", "gb300"}) {
    EXPECT_EQ(gpu_row(name).power.voltage_basis, Basis::assumed) << name;
    EXPECT_THAT(std::string(gpu_row(name).source), testing::StartsWith("assumed")) << name;
  }
  EXPECT_EQ(error_of([] { (void)gpu_row("h300"); }), "the table of powers has no GPU \"h300\"");
}

TEST(HighestClockWithin, FindsThePowersClock) {
  const auto power_w = [](double clock_mhz) { return clock_mhz / 2; };
  EXPECT_EQ(highest_clock_within(100, 1000, 600, power_w), 1000);
  EXPECT_NEAR(highest_clock_within(100, 1000, 250, power_w), 500, 1e-3);
  EXPECT_EQ(highest_clock_within(100, 1000, 20, power_w), 100);
}

}  // namespace
}  // namespace lowgear::power
