#include "planning/adapt/default_points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error.h"

namespace lowgear::adapt {
namespace {

using testing::ElementsAre;

/// As an H100 lists them.
std::vector<int> h100_clocks_mhz() {
  std::vector<int> clocks_mhz;
  for (int clock_mhz = 1980; clock_mhz >= 210; clock_mhz -= 15) clocks_mhz.push_back(clock_mhz);
  return clocks_mhz;
}

TEST(DefaultClocks, AreFullSpeedTheLowestThatIsSurelyAllowedAndBelow) {
  // 1980 / 1.02 = 1941.2; then in equal steps to 0.55 * 1980 = 1089; each the supported one at or above.
  EXPECT_THAT(default_clocks_mhz(h100_clocks_mhz(), 1980, 2), ElementsAre(1980, 1950, 1740, 1530, 1305, 1095));
  EXPECT_THAT(default_clocks_mhz(h100_clocks_mhz(), 1980, 25), ElementsAre(1980, 1590, 1470, 1350, 1215, 1095));
}

TEST(DefaultClocks, NameNoClockTwice) {
  EXPECT_THAT(default_clocks_mhz(h100_clocks_mhz(), 1980, 0), ElementsAre(1980, 1770, 1545, 1320, 1095));
  EXPECT_THAT(default_clocks_mhz(h100_clocks_mhz(), 1980, 500), ElementsAre(1980, 1095));
  EXPECT_THAT(default_clocks_mhz(std::vector{1000, 1410}, 1410, 5), ElementsAre(1410, 1000));
  EXPECT_THROW((void)default_clocks_mhz(std::vector{1410, 300}, 1410, 5), InputError)
      << "none above 0.55 of the highest";
  EXPECT_THROW((void)default_clocks_mhz(std::vector<int>{}, 1410, 5), InputError);
}

TEST(DefaultClocks, BeginBelowTheClockThatAPowerLimitAllows) {
  // 1620 / 1.02 = 1588.2; then in equal steps of 124.8 to 1089.
  EXPECT_THAT(default_clocks_mhz(h100_clocks_mhz(), 1620, 2), ElementsAre(1980, 1590, 1470, 1350, 1215, 1095));
  EXPECT_EQ(default_clocks_mhz(h100_clocks_mhz(), 2500, 2), default_clocks_mhz(h100_clocks_mhz(), 1980, 2));
}

TEST(DefaultPowerLimits, GoEvenlyFromWhatTheJobDrawsToHalfOrToTheLeast) {
  EXPECT_THAT(default_power_limits_w(200, 700, 700), ElementsAre(700, 679, 597, 515, 433, 350));
  EXPECT_THAT(default_power_limits_w(200, 700, 500), ElementsAre(700, 485, 427, 368, 309, 250)) << "all of them bind";
  EXPECT_THAT(default_power_limits_w(300, 400, 400), ElementsAre(400, 388, 366, 344, 322, 300));
  EXPECT_THROW((void)default_power_limits_w(200, 700, 190), InputError);
}

}  // namespace
}  // namespace lowgear::adapt
