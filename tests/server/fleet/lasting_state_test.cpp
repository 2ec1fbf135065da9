#include "server/fleet/lasting_state.h"

#include <gtest/gtest.h>

namespace lowgear::server {
namespace {

TEST(LastingState, CountsOnceItHasLasted) {
  LastingState state;
  EXPECT_EQ(state.observe(false, 0, 10), std::nullopt);
  EXPECT_EQ(state.observe(true, 1, 10), std::nullopt);
  EXPECT_EQ(state.observe(true, 10.9, 10), std::nullopt);
  EXPECT_EQ(state.observe(true, 11, 10), true);
  EXPECT_EQ(state.observe(true, 30, 10), std::nullopt);
  EXPECT_EQ(state.observe(false, 31, 10), std::nullopt);
  EXPECT_EQ(state.observe(false, 41, 10), false);
}

TEST(LastingState, ForgetsWhatComesAndGoes) {
  LastingState state;
  for (int now_s = 0; now_s < 100; ++now_s) EXPECT_EQ(state.observe(now_s % 9 != 0, now_s, 10), std::nullopt);
}

}  // namespace
}  // namespace lowgear::server
