#include "server/job/slowest_rank.h"

#include <gtest/gtest.h>

#include <array>

namespace lowgear::server {
namespace {

using Times = std::array<double, 2>;

TEST(SlowestRank, AddsUpToNoMoreThanTheJobWhereRanksWaitInTurns) {
  SlowestRank slowest;
  double sum_s = 0;
  for (int i = 0; i < 1000; ++i) sum_s += slowest.take(i % 2 == 0 ? Times{1.04, 1} : Times{1, 1.04});
  EXPECT_NEAR(sum_s, 1020, 0.05) << "of either rank; the longest times are 1040 s";
}

TEST(SlowestRank, CountsTheRankThatOthersWaitForBetweenIterations) {
  SlowestRank slowest;
  EXPECT_EQ(slowest.take(Times{10, 0.45}), 10);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(slowest.take(Times{0.3, 0.45}), 0.45) << i;
  EXPECT_EQ(slowest.take(Times{0.45, 0.3}), 0.3) << "it may have stalled";
  for (int i = 0; i < 10; ++i) EXPECT_EQ(slowest.take(Times{0.45, 0.3}), 0.45) << i;
  for (int i = 0; i < 30; ++i) (void)slowest.take(Times{0.45, 0.46});
  EXPECT_EQ(slowest.take(Times{0.45, 0.46}), 0.46) << "slower by little, for long";
}

TEST(SlowestRank, CountsAStallOnce) {
  SlowestRank slowest;
  for (int i = 0; i < 3; ++i) (void)slowest.take(Times{1, 1});
  EXPECT_EQ(slowest.take(Times{1, 5}) + slowest.take(Times{5, 1}), 6);
}

TEST(SlowestRank, CountsAnotherRankWhereItsTimeIsNotKnown) {
  SlowestRank slowest;
  for (int i = 0; i < 3; ++i) (void)slowest.take(Times{1, 2});
  EXPECT_EQ(slowest.take(Times{1, 0}), 1);
  EXPECT_EQ(slowest.take(Times{1, 0}), 1);
}

}  // namespace
}  // namespace lowgear::server
