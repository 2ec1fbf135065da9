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
  EXPECT_THAT(default_clocks_mhz(h100_clocks_mhz(), 2), ElementsAre(1980, 1950, 1740, 1530, 1305, 1095));
  EXPECT_THAT(default_clocks_mhz(h100_clocks_mhz(), 25), ElementsAre(1980, 1590, 1470, 1350, 1215, 1095));
}

TEST(DefaultClocks, NameNoClockTwice) {
  EXPECT_THAT(default_clocks_mhz(h100_clocks_mhz(), 0), ElementsAre(1980, 1770, 1545, 1320, 1095));
  EXPECT_THAT(default_clocks_mhz(h100_clocks_mhz(), 500), ElementsAre(1980, 1095));
  EXPECT_THAT(default_clocks_mhz(std::vector{1000, 1410}, 5), ElementsAre(1410, 1000));
  EXPECT_THROW((void)default_clocks_mhz(std::vector{1410, 300}, 5), InputError) << "none above 0.55 of the highest";
  EXPECT_THROW((void)default_clocks_mhz(std::vector<int>{}, 5), InputError);
}

TEST(DefaultPowerLimits, GoEvenlyToHalfOrToTheLeast) {
  EXPECT_THAT(default_power_limits_w(200, 700), ElementsAre(700, 630, 560, 490, 420, 350));
  EXPECT_THAT(default_power_limits_w(250, 400), ElementsAre(400, 370, 340, 310, 280, 250));
  EXPECT_THROW((void)default_power_limits_w(300, 300), InputError);
}

}  // namespace
}  // namespace lowgear::adapt
