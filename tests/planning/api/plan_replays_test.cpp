#include "planning/api/plan_replays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/core/error.h"
#include "planning/api/plan_pipeline.h"
#include "planning/api/sample_pipeline.h"

namespace lowgear::api {
namespace {

using ::testing::HasSubstr;

class PlanReplaysTest : public testing::Test {
 protected:
  ProfiledPipeline pipeline = sample_pipeline();
  PlanResult made = plan(pipeline, {.deadlines = {.slowdown_pct = 1}});
  std::vector<int> clocks_mhz = clocks_for(made.shown, pipeline.dag);
};

TEST_F(PlanReplaysTest, HoldOnlyWhatIsAskedFor) {
  const PlanReplays replays = replay_plan(pipeline, clocks_mhz, {});
  EXPECT_NEAR(replays.timeline.time_s, made.shown.time_s, 1e-9);
  EXPECT_FALSE(replays.unslowed);
  EXPECT_FALSE(replays.late);
  EXPECT_FALSE(replays.cluster);
}

TEST_F(PlanReplaysTest, KeepWhatAPlanTakesWithoutItsStragglers) {
  const PlanReplays replays = replay_plan(pipeline, clocks_mhz, {.conditions = {0, {{.stage = 1, .factor = 1.5}}}});
  EXPECT_NEAR(replays.unslowed.value().time_s, made.shown.time_s, 1e-9);
  EXPECT_GT(replays.timeline.time_s, made.shown.time_s);
}

TEST_F(PlanReplaysTest, TakeLongerWithLateClocks) {
  const PlanReplays replays = replay_plan(pipeline, clocks_mhz, {.late_s = 0.01});
  EXPECT_NE(replays.late.value().energy_j, replays.timeline.energy_j_total);
}

/// A slow GPU changes its clock as late as any other.
TEST_F(PlanReplaysTest, SlowNoLatencyWithAStage) {
  constexpr double kFactor = 1.5;
  ProfiledPipeline slowed = pipeline;
  slowed.profile = profile::StageProfile(pipeline.profile.stages());
  for (const auto& [stage, kind, rows] : pipeline.profile.ops()) {
    const double factor = stage == 1 ? kFactor : 1;
    for (const profile::Measurement& row : rows) {
      slowed.profile.add(stage, kind, {row.clock_mhz, factor * row.time_s, factor * row.energy_j});
    }
  }
  const double latency_s = made.shown.time_s / 50;
  const PlanReplays by_factor =
      replay_plan(pipeline, clocks_mhz, {.conditions = {latency_s, {{.stage = 1, .factor = kFactor}}}});
  const PlanReplays by_profile = replay_plan(slowed, clocks_mhz, {.conditions = {latency_s, {}}});
  EXPECT_NEAR(by_factor.timeline.time_s, by_profile.timeline.time_s, 1e-12);
  EXPECT_NEAR(by_factor.timeline.energy_j_total, by_profile.timeline.energy_j_total, 1e-9);
}

TEST_F(PlanReplaysTest, LetAClusterWaitForItsSlowPipeline) {
  const PlanReplays replays = replay_plan(pipeline, clocks_mhz, {.pipelines = 3, .slow_pipeline = 1.2});
  ASSERT_EQ(replays.cluster.value().pipelines.size(), 3U);
  EXPECT_NEAR(replays.cluster->time_s, 1.2 * replays.timeline.time_s, 1e-9);
  EXPECT_NEAR(replays.cluster->pipelines[1].time_s, replays.timeline.time_s, 1e-9);
}

TEST_F(PlanReplaysTest, StateWhatPredictedRowsLeaveOpen) {
  EXPECT_FALSE(replay_plan(pipeline, clocks_mhz, {}).predicted);
  int ops = 0;
  double error_j = 0;
  const schedule::ComputeOp& first = pipeline.dag.ops.front();
  for (std::size_t i = 0; i < clocks_mhz.size(); ++i) {
    const schedule::ComputeOp& op = pipeline.dag.ops[i];
    if (op.stage != first.stage || op.kind != first.kind || clocks_mhz[i] != clocks_mhz.front()) continue;
    ++ops;
    error_j += 0.5;
  }
  pipeline.predicted = {{{first.stage, first.kind, clocks_mhz.front()}, 0, 0}};
  EXPECT_FALSE(replay_plan(pipeline, clocks_mhz, {}).predicted) << "no error is stated";
  pipeline.predicted.front().energy_error_j = 0.5;
  const PlanReplays replays = replay_plan(pipeline, clocks_mhz, {});
  const PredictedInterval& interval = replays.predicted.value();
  EXPECT_EQ(interval.predicted_ops, ops);
  EXPECT_EQ(interval.ops, static_cast<int>(clocks_mhz.size()));
  EXPECT_NEAR(interval.low.energy_j, replays.timeline.energy_j_total - 1.645 * error_j, 1e-9);
  EXPECT_NEAR(interval.high.energy_j, replays.timeline.energy_j_total + 1.645 * error_j, 1e-9);
  EXPECT_NEAR(interval.high.time_s, replays.timeline.time_s, 1e-12);
  pipeline.predicted.front().time_error_s = 0.01;
  EXPECT_GT(replay_plan(pipeline, clocks_mhz, {}).predicted.value().high.time_s, replays.timeline.time_s);
  const PlanResult planned = plan(pipeline, {.deadlines = {.slowdown_pct = 1}});
  EXPECT_THAT(planned.warnings, testing::Contains(HasSubstr("ops run at predicted clocks")));
}

TEST(LeadProblem, IsALeadOfAnIterationOrMore) {
  EXPECT_FALSE(lead_problem(0.025, 2.8));
  EXPECT_FALSE(lead_problem(2.7, 2.8));
  EXPECT_THAT(lead_problem(2.8, 2.8).value(), HasSubstr("must be shorter than an iteration"));
  EXPECT_THAT(lead_problem(9, 2.8).value(),
              HasSubstr("clocks change 9 s after the request, and an iteration takes 2.8 s"));
  EXPECT_NO_THROW(require_lead_within(0, 2.8));
  EXPECT_THROW(require_lead_within(9, 2.8), InputError);
}

}  // namespace
}  // namespace lowgear::api
