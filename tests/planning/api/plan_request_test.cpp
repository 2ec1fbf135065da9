#include "planning/api/plan_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lowgear::api {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(Deadlines, WithoutAnyThereAreTwentyFromTheFastestToTheSlowest) {
  const std::vector<double> times_s = deadlines_s({}, 2, 4);
  EXPECT_EQ(times_s.size(), 20U);
  EXPECT_EQ(times_s.front(), 2);
  EXPECT_EQ(times_s.back(), 4);
  EXPECT_EQ(single_deadline_s({}, 2, 4), std::nullopt);
}

TEST(Deadlines, AreOneWhereThereIsNothingBetweenTheEnds) {
  EXPECT_THAT(deadlines_s({.plans = 7}, 2, 2), ElementsAre(2));
  EXPECT_THAT(deadlines_s({.plans = 1}, 2, 4), ElementsAre(2));
}

TEST(Deadlines, OfAStragglerAreNeverLaterThanUseful) {
  EXPECT_THAT(single_deadline_s({.straggler_factor = 1.5}, 2, 4), Optional(3.0));
  EXPECT_THAT(single_deadline_s({.straggler_factor = 9}, 2, 4), Optional(4.0));
  EXPECT_THAT(deadlines_s({.straggler_factor = 9}, 2, 4), ElementsAre(4));
}

}  // namespace
}  // namespace lowgear::api
