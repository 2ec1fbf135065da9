#include "client/search/pause_filter.h"

#include <gtest/gtest.h>

namespace lowgear::client {
namespace {

TEST(PauseFilter, LeavesOutWhatTakesFarLongerOrShorterThanTheSamePointDoes) {
  PauseFilter pauses;
  for (const double time_s : {1.0, 1.1, 0.9, 1.5, 1.0}) EXPECT_FALSE(pauses.is_pause(0, time_s)) << time_s;
  EXPECT_TRUE(pauses.is_pause(0, 2.5)) << "an evaluation";
  EXPECT_FALSE(pauses.is_pause(0, 1.0));
  EXPECT_TRUE(pauses.is_pause(0, 0.4)) << "the last batch of an epoch";
  EXPECT_EQ(pauses.in_a_row(), 1);
}

TEST(PauseFilter, AllowsAnotherPointAnotherTime) {
  PauseFilter pauses;
  for (int i = 0; i < 5; ++i) (void)pauses.is_pause(0, 1.0);
  EXPECT_FALSE(pauses.is_pause(1, 2.5)) << "at a low clock";
  EXPECT_TRUE(pauses.is_pause(1, 9.0));
  EXPECT_FALSE(pauses.is_pause(1, 2.5));
  EXPECT_FALSE(pauses.is_pause(1, 2.5));
  EXPECT_FALSE(pauses.is_pause(1, 4.5)) << "its own median counts now";
  EXPECT_TRUE(pauses.is_pause(0, 2.5));
}

TEST(PauseFilter, CountsWhatItLeavesOutInARow) {
  PauseFilter pauses;
  for (int i = 0; i < 5; ++i) (void)pauses.is_pause(0, 1.0);
  for (int i = 1; i <= 7; ++i) {
    EXPECT_TRUE(pauses.is_pause(0, 3.0));
    EXPECT_EQ(pauses.in_a_row(), i);
  }
  EXPECT_FALSE(pauses.is_pause(0, 1.0));
  EXPECT_EQ(pauses.in_a_row(), 0);
}

}  // namespace
}  // namespace lowgear::client
