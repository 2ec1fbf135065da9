#include "planning/plan/plan_sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/core/error.h"

namespace lowgear::plan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(PlanSampling, ReadsWhatTheHelpSays) {
  EXPECT_EQ(read_plan_sampling("all").every, 1);
  EXPECT_EQ(read_plan_sampling("20").count, 20);
  EXPECT_EQ(read_plan_sampling("every:50").every, 50);
  EXPECT_FALSE(read_plan_sampling("every:50").count);
  for (const char* wrong : {"", "All", "0", "-3", "2.5", "every", "every:", "every:0", "every:x", "99999999999"}) {
    EXPECT_THROW((void)read_plan_sampling(wrong), InputError) << wrong;
  }
}

TEST(PlanSampling, TakesPlacesByDistanceAndByCount) {
  EXPECT_THAT(sampled_places(7, read_plan_sampling("every:3")), ElementsAre(0, 3, 6));
  EXPECT_THAT(sampled_places(8, read_plan_sampling("every:3")), ElementsAre(0, 3, 6, 7));
  EXPECT_THAT(sampled_places(9, read_plan_sampling("3")), ElementsAre(0, 4, 8));
  EXPECT_THAT(sampled_places(9, read_plan_sampling("1")), ElementsAre(8));
  EXPECT_THAT(sampled_places(1, read_plan_sampling("every:3")), ElementsAre(0));
  EXPECT_THAT(sampled_places(0, read_plan_sampling("all")), IsEmpty());
}

TEST(PlanSampling, PlacesRiseAndEndWithTheLast) {
  for (std::size_t total = 1; total < 40; ++total) {
    for (int number = 1; number < 45; ++number) {
      const auto by_count = sampled_places(total, {.count = number});
      EXPECT_EQ(by_count.size(), std::min(total, static_cast<std::size_t>(number)));
      for (const auto& places : {by_count, sampled_places(total, {.every = number})}) {
        EXPECT_EQ(std::ranges::adjacent_find(places, std::greater_equal<>{}), places.end());
        EXPECT_EQ(places.back(), total - 1);
      }
    }
  }
}

}  // namespace
}  // namespace lowgear::plan
