#include "server/job/trial_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lowgear::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

protocol::RankCells cells(int rank, int version, std::vector<int> clocks_mhz, double time_s = 1) {
  protocol::RankCells cells{.rank = rank, .plan_version = version, .cells = {}, .blocking = {}};
  for (const int clock_mhz : clocks_mhz) {
    cells.cells.push_back({.stage = rank,
                           .kind = OpKind::forward,
                           .clock_mhz = clock_mhz,
                           .units = 10,
                           .time_s = time_s,
                           .time_error_s = 0.1,
                           .energy_j = 100,
                           .energy_error_j = 3});
  }
  cells.blocking.push_back({.stage = rank, .power_w = 70, .error_w = 1});
  return cells;
}

TEST(TrialSweep, IsNewUntilClocksAreWanted) {
  EXPECT_FALSE(TrialSweep().is_new());
  TrialSweep sweep(1);
  EXPECT_TRUE(sweep.is_new());
  sweep.want({1410, 900});
  EXPECT_FALSE(sweep.is_new());
  EXPECT_EQ(sweep.rounds(), 1);
}

TEST(TrialSweep, KnowsWhoHasPostedWhenItIsBegunAgain) {
  TrialSweep sweep(1);
  sweep.want({1410});
  EXPECT_TRUE(sweep.add(cells(0, 4, {1410})));
  EXPECT_FALSE(sweep.add(cells(0, 4, {900}))) << "what was posted for the same version stays";
  sweep.begin(4, 20, 10);
  EXPECT_EQ(sweep.waited(), 1U);
  EXPECT_EQ(sweep.measured().clocks(), 1U);
  EXPECT_EQ(sweep.round().end_iteration, 20);
}

TEST(TrialSweep, CountsTheAttemptsAtARound) {
  TrialSweep sweep(1);
  sweep.want({1410, 900});
  sweep.begin(1, 5, 10);
  sweep.begin(2, 9, 30);
  EXPECT_EQ(sweep.round().attempts, 2);
  EXPECT_EQ(sweep.round().begun_s, 30);
  sweep.want({1200});
  sweep.begin(3, 12, 40);
  EXPECT_EQ(sweep.round().attempts, 1);
}

TEST(TrialSweep, TakesNothingOfAnEarlierSweep) {
  TrialSweep sweep(4);
  EXPECT_FALSE(sweep.add(cells(0, 3, {1410})));
  EXPECT_TRUE(sweep.measured().empty());
  EXPECT_TRUE(sweep.add(cells(0, 4, {1410})));
  EXPECT_THAT(sweep.measured().all(), SizeIs(1));
}

TEST(TrialSweep, ReturnsToWhatWasKept) {
  TrialSweep sweep(1);
  EXPECT_FALSE(sweep.return_to_kept());
  sweep.want({1410});
  sweep.begin(1, 5, 10);
  (void)sweep.add(cells(0, 1, {1410}, 1));
  sweep.keep();
  EXPECT_EQ(sweep.kept_version(), 1);
  sweep.want({1410});
  sweep.begin(2, 9, 20);
  (void)sweep.add(cells(0, 2, {1410}, 2));
  EXPECT_TRUE(sweep.return_to_kept());
  EXPECT_EQ(sweep.measured().all().at(0).cells.at(0).time_s, 1);
  EXPECT_TRUE(sweep.has_returned());
  EXPECT_FALSE(sweep.add(cells(1, 2, {1410}, 2))) << "of a round that does not count";
  EXPECT_TRUE(sweep.add(cells(1, 1, {1410}, 1)));

  TrialSweep again(1);
  again.restore_kept(sweep.kept_version(), false);
  (void)again.add(cells(0, 1, {1410}, 1));
  (void)again.add(cells(0, 2, {1410}, 2));
  EXPECT_EQ(again.measured().all().at(0).cells.at(0).time_s, 2);
  EXPECT_TRUE(again.return_to_kept());
  EXPECT_EQ(again.measured().all().at(0).cells.at(0).time_s, 1);
}

TEST(TrialSweep, TakesTheNewestOfEachCell) {
  TrialSweep sweep(1);
  (void)sweep.add(cells(0, 1, {1410, 900}, 1));
  (void)sweep.add(cells(0, 2, {900, 600}, 2));
  const std::vector<protocol::RankCells> all = sweep.measured().all();
  ASSERT_THAT(all, SizeIs(1));
  ASSERT_THAT(all[0].cells, SizeIs(3));
  EXPECT_EQ(all[0].cells[0].time_s, 1);
  EXPECT_EQ(all[0].cells[1].time_s, 2);
  EXPECT_THAT(all[0].blocking, SizeIs(1));
}

TEST(TrialSweep, NamesClocksThatSomeStageHasNotMeasured) {
  TrialSweep sweep(1);
  sweep.want({1410, 900, 600});
  EXPECT_THAT(sweep.measured().missing({1410, 900, 600}), ElementsAre(1410, 900, 600));
  (void)sweep.add(cells(0, 1, {1410, 900, 600}));
  (void)sweep.add(cells(1, 1, {1410, 600}));
  EXPECT_THAT(sweep.measured().missing({1410, 900, 600}), ElementsAre(900));
  (void)sweep.add(cells(1, 2, {900}));
  EXPECT_THAT(sweep.measured().missing({1410, 900, 600}), IsEmpty());
}

TEST(TrialSweep, RemembersTheRoundThatItBeganWith) {
  TrialSweep sweep(1);
  EXPECT_FALSE(sweep.first_round());
  sweep.want({1410, 900});
  sweep.begin(1, 5, 10);
  sweep.want({600});
  sweep.begin(2, 9, 20);
  ASSERT_TRUE(sweep.first_round());
  EXPECT_EQ(sweep.first_round()->end_iteration, 5);
  EXPECT_EQ(sweep.first_round()->begun_s, 10);
  EXPECT_EQ(sweep.round().end_iteration, 9);
}

TEST(TrialSweep, DoesWithoutARankUntilItPostsAgain) {
  TrialSweep sweep(1);
  sweep.want({1410, 900});
  sweep.begin(1, 5, 10);
  sweep.do_without(0);
  sweep.begin(2, 9, 20);
  EXPECT_FALSE(sweep.waits_for(0));
  (void)sweep.add(cells(0, 1, {1410}));
  EXPECT_TRUE(sweep.waits_for(0));
}

}  // namespace
}  // namespace lowgear::server
