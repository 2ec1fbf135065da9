#include "server/steering/switch_boundary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/core/error_of.h"

namespace lowgear::server {
namespace {

using testing::HasSubstr;

TEST(SwitchBoundary, IsTheSecondNextWhenEverybodyIsToldAtOnce) {
  EXPECT_EQ(switch_boundary({41, 0, 1}, 0), 43);
  EXPECT_EQ(switch_boundary({41, 0, 1}, 0.99), 43);
  EXPECT_EQ(switch_boundary({-1, 0, 1}, 0), 1) << "iteration 0 has begun";
}

TEST(SwitchBoundary, LeavesTimeForDelivery) {
  EXPECT_EQ(switch_boundary({41, 0, 1}, 1), 44);
  EXPECT_EQ(switch_boundary({41, 0, 0.01}, 0.05), 48);
  EXPECT_EQ(switch_boundary({41, 0.6, 1}, 0.5), 44) << "what happened is some time ago";
}

/// Against a job that runs as fast as it may: no rank has begun the boundary when all are told, and one earlier would
/// have been too early.
TEST(SwitchBoundary, IsTheFirstThatNobodyHasBegun) {
  for (const double since_s : {0.0, 0.125, 0.5, 1.75, 3.0}) {
    for (const double budget_s : {0.0, 0.25, 0.375, 1.0, 2.5}) {
      const double iteration_s = 0.5;
      int running = 11;
      for (double end_s = iteration_s; end_s <= since_s + budget_s; end_s += iteration_s) ++running;
      EXPECT_EQ(switch_boundary({10, since_s, iteration_s}, budget_s), running + 1) << since_s << " " << budget_s;
    }
  }
}

TEST(SwitchBoundary, RefusesWhatMakesNoSense) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(error_of([] { (void)switch_boundary({0, 0, 0}, 0); }), HasSubstr("above 0"));
  EXPECT_THAT(error_of([] { (void)switch_boundary({0, 0, kNan}, 0); }), HasSubstr("above 0"));
  EXPECT_THAT(error_of([] { (void)switch_boundary({0, -1, 1}, 0); }), HasSubstr("0 or more"));
  EXPECT_THAT(error_of([] { (void)switch_boundary({0, 0, 1}, kNan); }), HasSubstr("0 or more"));
  EXPECT_THAT(error_of([] { (void)switch_boundary({-2, 0, 1}, 0); }), HasSubstr("-1 or more"));
  EXPECT_THAT(error_of([] { (void)switch_boundary({0, 0, 1e-9}, 1e6); }), HasSubstr("too far ahead"));
  EXPECT_THAT(error_of([] {
                (void)switch_boundary({std::numeric_limits<std::int64_t>::max(), 0, 1}, 0);
              }),
              HasSubstr("too far ahead"));
}

}  // namespace
}  // namespace lowgear::server
