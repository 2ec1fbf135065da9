#include "server/fleet/signals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear::server {
namespace {

using testing::HasSubstr;

const std::vector<SignalPoint> kDay = {{0, 100}, {3600, 250}, {7200, 280}, {10800, 450}, {14400, 90}};
const std::vector<SignalThreshold> kTwoSteps = {{200, 5}, {400, 10}};

TEST(SignalPolicy, AllowsWhatTheValueAtThatTimeAllows) {
  const SignalPolicy policy("carbon", kDay, kTwoSteps);
  EXPECT_EQ(policy.at(0).slowdown_pct, 0);
  EXPECT_EQ(policy.at(0).value, 100);
  EXPECT_EQ(policy.at(3599.9).slowdown_pct, 0);
  EXPECT_EQ(policy.at(3600).slowdown_pct, 5) << "a point counts from its own time on";
  EXPECT_EQ(policy.at(12000).slowdown_pct, 10);
}

TEST(SignalPolicy, AThresholdIncludesItsValue) {
  const SignalPolicy policy("price", {{0, 200}, {1, 199.999}}, kTwoSteps);
  EXPECT_EQ(policy.at(0).slowdown_pct, 5);
  EXPECT_EQ(policy.at(1).slowdown_pct, 0);
}

TEST(SignalPolicy, AllowsNothingWhenNothingIsKnown) {
  const SignalPolicy policy("carbon", {{1000, 500}}, kTwoSteps, 600);
  EXPECT_EQ(policy.at(999).slowdown_pct, 0);
  EXPECT_EQ(policy.at(999).value, std::nullopt);
  EXPECT_EQ(policy.at(1000).slowdown_pct, 10);
  EXPECT_EQ(policy.at(1600).slowdown_pct, 0) << "the last point expires";
  EXPECT_EQ(policy.at(1600).value, std::nullopt);
}

TEST(SignalPolicy, RefusesBadSeriesSayingWhere) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto error = [](std::vector<SignalPoint> points, std::vector<SignalThreshold> thresholds = kTwoSteps,
                        double hold_s = 3600) {
    return error_of([&] { SignalPolicy policy("carbon", points, thresholds, hold_s); });
  };
  EXPECT_THAT(error({}), HasSubstr("carbon signal: it has no points"));
  EXPECT_THAT(error({{0, 1}, {5, 2}, {4, 3}}), HasSubstr("point 2 at 4 s is not after the one before it"));
  EXPECT_THAT(error({{0, 1}, {0, 2}}), HasSubstr("each time once"));
  EXPECT_THAT(error({{0, 1}, {1, kNan}}), HasSubstr("point 1 is nan"));
  EXPECT_THAT(error({{kNan, 1}}), HasSubstr("must be finite"));
  EXPECT_THAT(error({{0, std::numeric_limits<double>::infinity()}}), HasSubstr("must be finite"));
  EXPECT_THAT(error(std::vector<SignalPoint>(kMaxSignalPoints + 1)), HasSubstr("at most 527040"));
  EXPECT_THAT(error({{0, 1}}, {}), HasSubstr("0 thresholds"));
  EXPECT_THAT(error({{0, 1}}, {{kNan, 5}}), HasSubstr("threshold 0 begins at nan"));
  EXPECT_THAT(error({{0, 1}}, {{1, 5}, {1, 6}}), HasSubstr("threshold 1 begins at 1, the one before it at 1"));
  EXPECT_THAT(error({{0, 1}}, {{1, -5}}), HasSubstr("slowdown of -5 %"));
  EXPECT_THAT(error({{0, 1}}, {{1, kNan}}), HasSubstr("from 0 to 1000 %"));
  EXPECT_THAT(error({{0, 1}}, kTwoSteps, 0), HasSubstr("above 0"));
}

}  // namespace
}  // namespace lowgear::server
