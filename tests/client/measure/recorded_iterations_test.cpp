#include "client/measure/recorded_iterations.h"

#include <gtest/gtest.h>

namespace lowgear::client {
namespace {

TEST(RecordedIterations, AreAllByDefault) {
  const RecordedIterations all;
  EXPECT_TRUE(all.contains(0));
  EXPECT_TRUE(all.contains(UINT64_MAX - 1));
}

TEST(RecordedIterations, HaveNeighbours) {
  const RecordedIterations some{.first = 11, .count = 2};
  EXPECT_FALSE(some.contains(10));
  EXPECT_TRUE(some.contains(11));
  EXPECT_TRUE(some.contains(12));
  EXPECT_FALSE(some.contains(13));
  EXPECT_FALSE(some.contains_near(9));
  EXPECT_TRUE(some.contains_near(10));
  EXPECT_TRUE(some.contains_near(13));
  EXPECT_FALSE(some.contains_near(14));
  EXPECT_TRUE((RecordedIterations{.first = 0, .count = 1}).contains_near(0));
}

}  // namespace
}  // namespace lowgear::client
