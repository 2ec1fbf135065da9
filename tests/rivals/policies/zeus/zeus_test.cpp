#include "rivals/policies/zeus/zeus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/sample_problem.h"

namespace lowgear::policies {
namespace {

using testing::Each;
using testing::HasSubstr;

/// The clock of each stage; fails when a stage has several.
std::vector<int> stage_clocks(const planner::SampleProblem& sample, const planner::PolicyPlan& plan) {
  std::map<int, int> clocks;
  for (std::size_t op = 0; op < plan.clocks_mhz.size(); ++op) {
    const auto [place, added] = clocks.try_emplace(sample.dag().ops[op].stage, plan.clocks_mhz[op]);
    EXPECT_EQ(place->second, plan.clocks_mhz[op]);
  }
  std::vector<int> by_stage;
  for (const auto& [stage, clock] : clocks) by_stage.push_back(clock);
  return by_stage;
}

TEST(ZeusGlobal, FindsTheBestCommonClock) {
  const planner::SampleProblem sample = planner::four_stages(6);
  const double fastest_s = replay_clocks(sample.problem(), max_clocks_mhz(sample.problem())).time_s;
  for (const double factor : {1.0, 1.03, 1.1, 1.25, 1.6}) {
    const double deadline_s = factor * fastest_s;
    double least_j = std::numeric_limits<double>::infinity();
    for (int clock = 855; clock <= 1410; clock += 15) {
      const simulator::Timeline timeline =
          replay_clocks(sample.problem(), std::vector<int>(sample.dag().ops.size(), clock));
      if (timeline.time_s <= deadline_s) least_j = std::min(least_j, timeline.energy_j_total);
    }
    const planner::PolicyPlan plan = ZeusGlobalPolicy().plan(sample.problem(), deadline_s);
    EXPECT_THAT(plan.clocks_mhz, Each(plan.clocks_mhz.front()));
    EXPECT_DOUBLE_EQ(planner::replay_plan(sample, plan).energy_j_total, least_j);
    EXPECT_LE(planner::replay_plan(sample, plan).time_s, deadline_s * (1 + 1e-9));
  }
}

TEST(ZeusGlobal, KeepsTheBaselinesTimeWithoutADeadline) {
  const planner::SampleProblem sample = planner::four_stages(6);
  const planner::PolicyPlan plan = ZeusGlobalPolicy().plan(sample.problem(), std::nullopt);
  EXPECT_THAT(plan.clocks_mhz, Each(1410));
}

TEST(ZeusGlobal, UsesOnlyClocksThatAllStagesHave) {
  profile::StageProfile profile(2);
  for (const int clock : {1410, 1200, 1000}) {
    const double time_s = 0.05 * 1410 / clock;
    profile.add(0, OpKind::forward, {clock, time_s, 15});
    profile.add(0, OpKind::backward, {clock, 2 * time_s, 30});
    if (clock == 1200) continue;
    profile.add(1, OpKind::forward, {clock, time_s, clock * 0.01});
    profile.add(1, OpKind::backward, {clock, 2 * time_s, clock * 0.02});
  }
  const planner::SampleProblem sample(schedule::one_f_one_b_schedule(2, 3), std::move(profile), 1);
  EXPECT_THAT(ZeusGlobalPolicy().plan(sample.problem(), 10.0).clocks_mhz, Each(1000));
}

TEST(ZeusGlobal, RefusesStagesWithoutACommonClock) {
  profile::StageProfile profile(2);
  for (int stage = 0; stage < 2; ++stage) {
    profile.add(stage, OpKind::forward, {1400 - stage, 0.05, 15});
    profile.add(stage, OpKind::backward, {1400 - stage, 0.10, 30});
  }
  const planner::SampleProblem sample(schedule::one_f_one_b_schedule(2, 3), std::move(profile), 80);
  EXPECT_THROW((void)ZeusGlobalPolicy().plan(sample.problem(), std::nullopt), InputError);
  EXPECT_NO_THROW((void)ZeusPerStagePolicy().plan(sample.problem(), std::nullopt));
}

TEST(ZeusGlobal, SaysHowFastItCanBe) {
  const planner::SampleProblem sample = planner::four_stages(6);
  EXPECT_THAT(error_of([&] { (void)ZeusGlobalPolicy().plan(sample.problem(), 0.5); }),
              HasSubstr("zeus-global: no plan takes 0.5 s or less; its fastest takes 1."));
}

TEST(ZeusPerStage, BalancesForwardTimes) {
  const planner::SampleProblem sample = planner::four_stages(6);
  const double fastest_s = replay_clocks(sample.problem(), max_clocks_mhz(sample.problem())).time_s;
  const planner::PolicyPlan plan = ZeusPerStagePolicy().plan(sample.problem(), 1.1 * fastest_s);
  const std::vector<int> clocks = stage_clocks(sample, plan);
  ASSERT_EQ(clocks.size(), 4U);
  // Stage 3 is the heaviest. Neighbouring clocks are about 1 % of time apart.
  const double heaviest_s = sample.profile().at_clock(3, OpKind::forward, clocks[3]).time_s;
  for (int stage = 0; stage < 3; ++stage) {
    EXPECT_LT(clocks[static_cast<std::size_t>(stage)], clocks[3]);
    const double time_s =
        sample.profile().at_clock(stage, OpKind::forward, clocks[static_cast<std::size_t>(stage)]).time_s;
    EXPECT_NEAR(time_s, heaviest_s, 0.01 * heaviest_s);
  }
  EXPECT_LE(planner::replay_plan(sample, plan).time_s, 1.1 * fastest_s);
  EXPECT_LT(planner::replay_plan(sample, plan).energy_j_total,
            planner::replay_plan(sample, ZeusGlobalPolicy().plan(sample.problem(), 1.1 * fastest_s)).energy_j_total);
}

TEST(ZeusPerStage, NeverRunsAnotherStageAboveTheHeaviestOnesClock) {
  // Stage 0 is the heaviest at full speed, but much quicker than stage 1 at 1000 MHz.
  profile::StageProfile profile(2);
  profile.add(0, OpKind::forward, {1400, 0.060, 20});
  profile.add(0, OpKind::forward, {1000, 0.061, 12});
  profile.add(0, OpKind::backward, {1400, 0.120, 40});
  profile.add(0, OpKind::backward, {1000, 0.122, 24});
  profile.add(1, OpKind::forward, {1400, 0.059, 20});
  profile.add(1, OpKind::forward, {1000, 0.090, 15});
  profile.add(1, OpKind::backward, {1400, 0.118, 40});
  profile.add(1, OpKind::backward, {1000, 0.180, 30});
  const planner::SampleProblem sample(schedule::one_f_one_b_schedule(2, 4), std::move(profile), 80);
  const planner::PolicyPlan relaxed = ZeusPerStagePolicy().plan(sample.problem(), 10.0);
  EXPECT_THAT(stage_clocks(sample, relaxed), testing::ElementsAre(1000, 1000));
  EXPECT_THAT(stage_clocks(sample, ZeusPerStagePolicy().plan(sample.problem(), std::nullopt)),
              testing::ElementsAre(1400, 1400));
}

TEST(ZeusPerStage, IsItsFastestPlanWhereNoneKeepsTheBaselinesTime) {
  // Stage 1's nearest forward time to stage 0's is at the lower clock, whose backward is slow.
  profile::StageProfile profile(2);
  profile.add(0, OpKind::forward, {1400, 0.060, 20});
  profile.add(0, OpKind::backward, {1400, 0.060, 20});
  profile.add(1, OpKind::forward, {1400, 0.050, 20});
  profile.add(1, OpKind::forward, {1000, 0.061, 15});
  profile.add(1, OpKind::backward, {1400, 0.060, 20});
  profile.add(1, OpKind::backward, {1000, 0.090, 15});
  const planner::SampleProblem sample(schedule::one_f_one_b_schedule(2, 4), std::move(profile), 80);
  const planner::PolicyPlan plan = ZeusPerStagePolicy().plan(sample.problem(), std::nullopt);
  EXPECT_EQ(stage_clocks(sample, plan).front(), 1400);
  EXPECT_THROW((void)ZeusPerStagePolicy().plan(sample.problem(), 0.1), InputError);
}

}  // namespace
}  // namespace lowgear::policies
