#include "planning/api/plan_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lowgear::api {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(Deadlines, WithoutAnyThereAreTwentyFromTheFastestToTheSlowest) {
  const std::vector<double> times_s = deadlines_s({}, {2, 4});
  EXPECT_EQ(times_s.size(), 20U);
  EXPECT_EQ(times_s.front(), 2);
  EXPECT_EQ(times_s.back(), 4);
  EXPECT_EQ(single_deadline_s({}, 2, 4), std::nullopt);
}

TEST(Deadlines, OneOfSeveralIsTheReferences) {
  EXPECT_THAT(deadlines_s({.plans = 5}, {2, 4, 2.6}), ElementsAre(2, 2.6, 3, 3.5, 4));
  EXPECT_THAT(deadlines_s({.plans = 5}, {2, 4, 2.01}), ElementsAre(2, 2.01, 3, 3.5, 4)) << "T_min stays";
  EXPECT_THAT(deadlines_s({.plans = 5}, {2, 4, 2 + 1e-9}), ElementsAre(2, 2.5, 3, 3.5, 4)) << "as good as T_min";
  EXPECT_THAT(deadlines_s({.plans = 5}, {2, 4, 5}), ElementsAre(2, 2.5, 3, 3.5, 4));
  EXPECT_THAT(deadlines_s({.plans = 2}, {2, 4, 3}), ElementsAre(2, 4)) << "both ends stay";
}

TEST(Deadlines, AreOneWhereThereIsNothingBetweenTheEnds) {
  EXPECT_THAT(deadlines_s({.plans = 7}, {2, 2}), ElementsAre(2));
  EXPECT_THAT(deadlines_s({.plans = 1}, {2, 4}), ElementsAre(2));
}

TEST(Deadlines, AsPrintedWithSixDigitsAreTheFastestThatTheyRoundDown) {
  constexpr double kFastestS = 15.679449;
  EXPECT_THAT(single_deadline_s({.deadline_s = 15.6794}, kFastestS, 20), Optional(kFastestS));
  EXPECT_THAT(single_deadline_s({.deadline_s = 1}, 1.000004, 20), Optional(1.000004));
  EXPECT_THAT(single_deadline_s({.deadline_s = 15.679}, kFastestS, 20), Optional(15.679)) << "earlier than rounding";
  EXPECT_THAT(single_deadline_s({.deadline_s = 15.6795}, kFastestS, 20), Optional(15.6795)) << "can be kept";
}

TEST(Deadlines, OfAStragglerAreNeverLaterThanUseful) {
  EXPECT_THAT(single_deadline_s({.straggler_factor = 1.5}, 2, 4), Optional(3.0));
  EXPECT_THAT(single_deadline_s({.straggler_factor = 9}, 2, 4), Optional(4.0));
  EXPECT_THAT(deadlines_s({.straggler_factor = 9}, {2, 4}), ElementsAre(4));
}

}  // namespace
}  // namespace lowgear::api
