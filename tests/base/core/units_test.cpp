#include "base/core/units.h"

#include <gtest/gtest.h>

namespace lowgear {
namespace {

TEST(Units, RoundToTheNearestPicosecondAndNanowatt) {
  EXPECT_EQ(ps_from_s(0.05016166687011708), 50161666870);
  EXPECT_EQ(ps_from_s(0.6e-12), 1);
  EXPECT_EQ(nw_from_w(83.64), 83640000000);
  EXPECT_EQ(nw_from_w(-1.6e-9), -2);
}

TEST(Units, HoldTheLongestTimeAndReadItBack) {
  EXPECT_EQ(ps_from_s(kMaxTimeS), 1'000'000'000'000'000'000);
  EXPECT_EQ(s_from_ps(ps_from_s(kMaxTimeS)), kMaxTimeS);
}

TEST(Units, EnergyOfAWattSecondIsAJoule) {
  const EnergyZj energy_zj = static_cast<EnergyZj>(nw_from_w(83.64)) * ps_from_s(2.0);
  EXPECT_DOUBLE_EQ(j_from_zj(energy_zj), 167.28);
}

}  // namespace
}  // namespace lowgear
