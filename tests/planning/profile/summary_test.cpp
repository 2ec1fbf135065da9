#include "planning/profile/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/core/error_of.h"

namespace lowgear::profile {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

StageProfile one_op(const std::vector<Measurement>& measurements) {
  StageProfile profile(1);
  for (const Measurement& measurement : measurements) profile.add(0, OpKind::forward, measurement);
  return profile;
}

OpProfileSummary summarise_one(const std::vector<Measurement>& measurements, double blocking_power_w = 0) {
  return summarise(one_op(measurements), std::vector{blocking_power_w}).at(0);
}

TEST(Summarise, CountsMeasurementsParetoOptionsAndHull) {
  const OpProfileSummary summary =
      summarise_one({{1410, 1, 10}, {1395, 2, 9}, {1380, 3, 4}, {1365, 4, 5}, {1350, 5, 1}}, 1);
  EXPECT_EQ(summary.stage, 0);
  EXPECT_EQ(summary.kind, OpKind::forward);
  EXPECT_EQ(summary.count, 5);
  EXPECT_EQ(summary.max_clock_mhz, 1410);
  EXPECT_EQ(summary.min_clock_mhz, 1350);
  // Effective energies 9, 7, 1, 1, -4: the fourth equals the third, which is faster.
  EXPECT_EQ(summary.pareto_count, 4);
  EXPECT_EQ(summary.hull_count, 3);
  EXPECT_EQ(summary.fastest_time_s, 1);
  EXPECT_EQ(summary.slowest_time_s, 5);
}

TEST(Summarise, EndsWhereSlowerClocksCostMoreThanTheySave) {
  EXPECT_EQ(summarise_one({{1410, 1, 10}, {1395, 2, 9}, {1380, 3, 12}}).slowest_time_s, 2);
}

TEST(Summarise, FindsGapsOnTheMostFrequentStep) {
  const OpProfileSummary summary =
      summarise_one({{1410, 1, 9}, {1395, 2, 8}, {1380, 3, 7}, {1335, 4, 6}, {1320, 5, 5}, {1290, 6, 4}});
  EXPECT_EQ(summary.clock_step_mhz, 15);
  EXPECT_THAT(summary.missing_clocks_mhz, ElementsAre(1365, 1350, 1305));
  EXPECT_EQ(summary.missing_count, 3);
}

TEST(Summarise, HasNoStepAndNoGapsWithOneClock) {
  const OpProfileSummary summary = summarise_one({{1410, 1, 10}});
  EXPECT_EQ(summary.count, 1);
  EXPECT_EQ(summary.clock_step_mhz, 0);
  EXPECT_THAT(summary.missing_clocks_mhz, IsEmpty());
  EXPECT_EQ(summary.hull_count, 1);
  EXPECT_EQ(summary.fastest_time_s, summary.slowest_time_s);
}

TEST(Summarise, FindsNoGapsBetweenUnevenlySpacedClocks) {
  const OpProfileSummary summary = summarise_one({{1980, 1, 9}, {1755, 2, 8}, {1530, 3, 7}, {1200, 4, 6}});
  EXPECT_EQ(summary.clock_step_mhz, 0);
  EXPECT_THAT(summary.missing_clocks_mhz, IsEmpty());
  EXPECT_EQ(summary.missing_count, 0);
}

TEST(Summarise, TakesTheSmallestOfEquallyFrequentSteps) {
  const OpProfileSummary summary = summarise_one({{1410, 1, 9}, {1380, 2, 8}, {1365, 3, 7}});
  EXPECT_EQ(summary.clock_step_mhz, 15);
  EXPECT_THAT(summary.missing_clocks_mhz, ElementsAre(1395));
}

TEST(Summarise, ListsOnlySomeOfVeryManyGaps) {
  const OpProfileSummary summary = summarise_one({{100000, 1, 10}, {3, 2, 9}, {2, 3, 8}, {1, 4, 7}});
  EXPECT_EQ(summary.clock_step_mhz, 1);
  EXPECT_EQ(summary.missing_count, 100000 - 4);
  EXPECT_EQ(summary.missing_clocks_mhz.size(), kMaxListedClocks);
  EXPECT_EQ(summary.missing_clocks_mhz.front(), 99999);
}

TEST(Summarise, FindsClocksThatAreNotFasterThanTheNextLower) {
  const OpProfileSummary summary =
      summarise_one({{1410, 1.0, 10}, {1395, 1.0, 9}, {1380, 1.2, 8}, {1365, 1.1, 7}, {1350, 1.3, 6}});
  EXPECT_THAT(summary.not_faster_clocks_mhz, ElementsAre(1410, 1380));
}

TEST(Summarise, HasARowForEveryOpOfEveryStage) {
  StageProfile profile(2);
  profile.add(0, OpKind::backward, {1410, 1, 10});
  profile.add(0, OpKind::forward, {1410, 1, 10});
  profile.add(1, OpKind::weight_gradient, {1410, 2, 10});
  const std::vector<OpProfileSummary> summaries = summarise(profile, std::vector{80.0, 70.0});
  ASSERT_EQ(summaries.size(), 3);
  EXPECT_EQ(summaries[0].kind, OpKind::forward);
  EXPECT_EQ(summaries[1].kind, OpKind::backward);
  EXPECT_EQ(summaries[2].stage, 1);
  EXPECT_EQ(summaries[2].kind, OpKind::weight_gradient);
}

TEST(Summarise, UsesTheBlockingPowerOfEachStage) {
  StageProfile profile(2);
  for (const int stage : {0, 1}) {
    profile.add(stage, OpKind::forward, {1410, 0.1, 20});
    profile.add(stage, OpKind::forward, {1305, 0.2, 21});
  }
  const std::vector<OpProfileSummary> summaries = summarise(profile, std::vector{0.0, 80.0});
  EXPECT_EQ(summaries[0].pareto_count, 1);
  EXPECT_EQ(summaries[1].pareto_count, 2);
}

TEST(Summarise, RefusesBlockingPowerOfAnotherNumberOfStages) {
  EXPECT_THAT(error_of([] { (void)summarise(StageProfile(2), std::vector{80.0}); }),
              HasSubstr("the profile has 2 stages and blocking power is given for 1"));
}

}  // namespace
}  // namespace lowgear::profile
