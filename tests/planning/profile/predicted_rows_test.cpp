#include "planning/profile/predicted_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace lowgear::profile {
namespace {

using testing::ElementsAre;

StageProfile given_profile() {
  StageProfile profile(1);
  profile.add(0, OpKind::forward, {1400, 0.1, 30});
  profile.add(0, OpKind::forward, {1200, 0.12, 25});
  profile.add(0, OpKind::backward, {1400, 0.2, 60});
  profile.add(0, OpKind::backward, {1200, 0.24, 50});
  return profile;
}

const std::vector<PredictedRow> kPredicted = {{{0, OpKind::forward, 1200}, 0.006, 1},
                                              {{0, OpKind::backward, 1200}, 0.024, 1}};

TEST(PredictedRows, OfTheSameRowsAreTheSame) {
  EXPECT_EQ(predicted_rows_of(given_profile(), kPredicted, given_profile()), kPredicted);
  EXPECT_TRUE(predicted_rows_of(given_profile(), {}, given_profile()).empty());
}

TEST(PredictedRows, OfRowsMadeFromOthersHaveTheLargestShareOfTheClock) {
  const std::vector<PredictedRow> rows =
      predicted_rows_of(given_profile(), kPredicted, with_stages_on_ranks(given_profile(), std::vector{0, 0}));
  ASSERT_EQ(rows.size(), 4U) << "forward and backward of two stages at 1200 MHz";
  for (const PredictedRow& row : rows) EXPECT_EQ(row.cell.clock_mhz, 1200);
  EXPECT_NEAR(rows[0].time_error_s, 0.1 * 0.06, 1e-12) << "the backward's tenth";
  EXPECT_NEAR(rows[0].energy_error_j, 0.04 * 12.5, 1e-12) << "the forward's 4 %";
}

TEST(PredictedRows, MoveByTheirErrorsAlone) {
  const StageProfile moved = moved_by_errors(given_profile(), kPredicted, -2);
  EXPECT_THAT(moved.measurements(0, OpKind::forward),
              ElementsAre(Measurement{1400, 0.1, 30}, Measurement{1200, 0.12 - 2 * 0.006, 23}));
  const StageProfile far = moved_by_errors(given_profile(), kPredicted, -1000);
  EXPECT_GT(far.at_clock(0, OpKind::backward, 1200).time_s, 0);
  EXPECT_GT(far.at_clock(0, OpKind::backward, 1200).energy_j, 0);
}

}  // namespace
}  // namespace lowgear::profile
