#include "server/job/clock_difference.h"

#include <gtest/gtest.h>

namespace lowgear::server {
namespace {

TEST(ClockDifference, IsThatOfTheFastestRequest) {
  ClockDifference clock;
  EXPECT_EQ(clock.behind_s(), 0);
  clock.add(100, 103.5);
  clock.add(101, 104.01);  // the others were held up
  clock.add(102, 109);
  EXPECT_NEAR(clock.behind_s(), 3.01, 1e-9);
}

TEST(ClockDifference, FollowsAClockThatIsSet) {
  ClockDifference clock;
  clock.add(100, 100.01);
  clock.add(111, 101.01);  // set forward by 10 s
  EXPECT_NEAR(clock.behind_s(), -9.99, 1e-9);
  for (std::size_t i = 0; i < ClockDifference::kMost; ++i) clock.add(200, 205.01);  // and back by 15 s
  EXPECT_NEAR(clock.behind_s(), 5.01, 1e-9);
}

}  // namespace
}  // namespace lowgear::server
