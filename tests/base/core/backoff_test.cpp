#include "base/core/backoff.h"

#include <gtest/gtest.h>

namespace lowgear {
namespace {

using namespace std::chrono_literals;

TEST(Backoff, DoublesUpToItsLast) {
  Backoff<double> backoff(1, 5);
  EXPECT_EQ(backoff.next(), 1);
  EXPECT_EQ(backoff.next(), 2);
  EXPECT_EQ(backoff.next(), 4);
  EXPECT_EQ(backoff.next(), 5);
  EXPECT_EQ(backoff.next(), 5);
  backoff.reset();
  EXPECT_EQ(backoff.next(), 1);
}

TEST(ScatteredBackoff, LiesBetweenHalfAndAllOfIt) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    ScatteredBackoff backoff(100ms, 150ms, seed);
    const auto first = backoff.next();
    EXPECT_GE(first, 50ms);
    EXPECT_LE(first, 100ms);
    const auto second = backoff.next();
    EXPECT_GE(second, 75ms);
    EXPECT_LE(second, 150ms);
  }
}

TEST(ScatteredBackoff, DiffersFromProcessToProcess) {
  EXPECT_NE(ScatteredBackoff(1s, 1s, 1).next(), ScatteredBackoff(1s, 1s, 2).next());
}

}  // namespace
}  // namespace lowgear
