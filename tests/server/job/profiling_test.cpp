#include "server/job/profiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error.h"
#include "server/simulated_job.h"

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

using testing::HasSubstr;

const std::vector<int> kClocks{1410, 1305, 1200, 1095, 990, 885};

IterationMeans baseline() { return {.iterations = 5, .time_s = 2, .energy_j = {}}; }

TEST(Profiling, BeginsWithTheHighestClockAndKeepsToTheAllowance) {
  protocol::JobSpec spec = small_job(1);
  Profiling profiling;
  profiling.allow(spec, baseline());
  const std::vector<int> first = profiling.first_clocks(spec, kClocks, 2);
  EXPECT_EQ(first.front(), 1410);
  EXPECT_GE(first.size(), 3U);
  spec.profiling->allowance_pct = 1e-6;
  profiling.allow(spec, baseline());
  try {
    (void)profiling.first_clocks(spec, kClocks, 2);
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("raise allowance_pct of the job's profile"));
  }
}

TEST(Profiling, AddsTrialsThatItsAllowanceCovers) {
  const protocol::JobSpec spec = small_job(1);
  Profiling profiling;
  profiling.begin(3);
  profiling.allow(spec, baseline());
  PlanVersion version;
  ASSERT_TRUE(profiling.add_trials(version, spec, {1200}, {.mhz = 1410, .time_s = 2}, " once more"));
  EXPECT_EQ(version.sweep, 3);
  ASSERT_EQ(version.trials.size(), 1U);
  EXPECT_EQ(version.trials[0].clock_mhz, 1200);
  EXPECT_EQ(version.reason, "tries 1200 MHz in single iterations once more");
  profiling.budget().spend(1e9, 0);
  PlanVersion unchanged;
  EXPECT_FALSE(profiling.add_trials(unchanged, spec, {1200}, {.mhz = 1410, .time_s = 2}, ""));
  EXPECT_TRUE(unchanged.trials.empty());
  EXPECT_TRUE(unchanged.reason.empty());
}

TEST(Profiling, MergesWhatRanksMeasuredIntoAProfile) {
  Profiling profiling;
  profiling.begin(1);
  EXPECT_THROW(profiling.merge(1, true), InputError);  // nothing was measured
  EXPECT_EQ(profiling.own(), nullptr);
}

TEST(Profiling, IsStoredAndRestored) {
  const protocol::JobSpec spec = small_job(1);
  Profiling profiling;
  profiling.begin(3);
  profiling.allow(spec, baseline());
  profiling.sweep().want({1410, 1200});
  profiling.sweep().begin(4, 30, 1e9);
  profiling.budget().spend(2.5, 2);
  Json state;
  profiling.write_state(state);
  Profiling restored;
  restored.restore(JsonView(state, "state"), spec, baseline());
  restored.resume_version(JsonView(state, "state"), 1e9);
  Json again;
  restored.write_state(again);
  EXPECT_EQ(again.dump(), state.dump());
  EXPECT_EQ(restored.budget().left_s(), profiling.budget().left_s());
  const Json one_clock_after_the_other = {{"sweep_first_version", 7}};
  restored.restore(JsonView(one_clock_after_the_other, "state"), spec, baseline());
  EXPECT_EQ(restored.sweep().first_version(), 7);
}

}  // namespace

}  // namespace lowgear::server
