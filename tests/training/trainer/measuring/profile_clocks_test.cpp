#include "training/trainer/measuring/profile_clocks.h"

#include <gtest/gtest.h>

namespace lowgear::trainer {
namespace {

launcher::ProfileConfig two_clocks() { return {.clocks_mhz = {1410, 1200}, .settle_iterations = 1, .iterations = 2}; }

TEST(ProfileClocks, AreNoneWithoutAProfile) {
  ProfileClocks clocks(std::nullopt);
  EXPECT_EQ(clocks.change_before(0), std::nullopt);
  EXPECT_FALSE(clocks.settles_at(0));
}

TEST(ProfileClocks, ChangeInTurnAndSettle) {
  ProfileClocks clocks(two_clocks());
  EXPECT_EQ(clocks.change_before(0), 1410);
  EXPECT_TRUE(clocks.settles_at(0));
  EXPECT_EQ(clocks.change_before(1), std::nullopt);
  EXPECT_FALSE(clocks.settles_at(1));
  EXPECT_EQ(clocks.change_before(2), std::nullopt);
  EXPECT_EQ(clocks.change_before(3), 1200);
  EXPECT_TRUE(clocks.settles_at(3));
  EXPECT_FALSE(clocks.settles_at(4));
  EXPECT_EQ(clocks.change_before(6), std::nullopt) << "the last clock stays";
}

TEST(ProfileClocks, SettleOnceMoreAfterACheckpoint) {
  ProfileClocks clocks(two_clocks());
  EXPECT_EQ(clocks.change_before(4), 1200);
  EXPECT_TRUE(clocks.settles_at(4));
  EXPECT_FALSE(clocks.settles_at(5));
}

}  // namespace
}  // namespace lowgear::trainer
