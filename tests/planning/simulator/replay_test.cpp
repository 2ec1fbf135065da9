#include "planning/simulator/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "planning/plan/perseus_plan.h"
#include "planning/plan/pipelines.h"
#include "planning/plan/plan_json.h"
#include "planning/simulator/shared_data.h"
#include "planning/simulator/two_stage_profile.h"

namespace lowgear::simulator {
namespace {

using ::testing::ElementsAre;

TEST(Replay, AddsOpsAndBlocking) {
  const schedule::PipelineDag dag = plan::pipeline(2, 2);
  const profile::StageProfile profile = two_stage_profile();
  const std::vector<int> clocks_mhz(dag.ops.size(), 1400);
  const Timeline timeline = replay(dag, costs_at_clocks(dag, profile, clocks_mhz), std::vector<double>{10, 20});
  EXPECT_THAT(timeline.start_s, ElementsAre(0, 1, 4, 7, 1, 2, 4, 5));
  EXPECT_THAT(timeline.duration_s, ElementsAre(1, 1, 2, 2, 1, 2, 1, 2));
  EXPECT_THAT(timeline.energy_j, ElementsAre(100, 100, 300, 300, 110, 310, 110, 310));
  EXPECT_EQ(timeline.time_s, 9);
  EXPECT_THAT(timeline.busy_s, ElementsAre(6, 6));
  EXPECT_THAT(timeline.blocked_s, ElementsAre(3, 3));
  EXPECT_EQ(timeline.energy_j_total, 1640 + 3 * 10 + 3 * 20);
}

TEST(Replay, OnAKeptGraphIsTheSame) {
  const schedule::PipelineDag dag = plan::pipeline(3, 4);
  std::vector<OpCost> costs;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    costs.push_back({0.1 + 0.01 * static_cast<double>(op), 5});
  }
  const std::vector<double> blocking_w{10, 20, 30};
  const Timeline fresh = replay(dag, costs, blocking_w);
  const Timeline kept = replay(dag, TimingGraph(dag), costs, blocking_w);
  EXPECT_EQ(fresh.start_s, kept.start_s);
  EXPECT_EQ(fresh.energy_j_total, kept.energy_j_total);
}

TEST(Replay, OpsOfARankNeverOverlapAndNeverStartBeforeTheirData) {
  std::mt19937 random(5);
  const schedule::PipelineDag dag = plan::pipeline(4, 9);
  std::vector<OpCost> costs;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    costs.push_back({std::uniform_real_distribution<double>(0.1, 2)(random), 1});
  }
  const Timeline timeline = replay(dag, costs, std::vector<double>(4, 0.0));
  for (const schedule::DagEdge& edge : dag.edges) {
    const auto from = static_cast<std::size_t>(edge.from);
    EXPECT_GE(timeline.start_s[static_cast<std::size_t>(edge.to)], timeline.start_s[from] + timeline.duration_s[from]);
  }
  EXPECT_EQ(timeline.energy_j_total, static_cast<double>(dag.ops.size()));
}

TEST(PlannedOps, HoldWhatWasReplayed) {
  const schedule::PipelineDag dag = plan::pipeline(2, 2);
  const std::vector<int> clocks_mhz{1400, 1400, 700, 1400, 700, 700, 1400, 1400};
  const Timeline timeline =
      replay(dag, costs_at_clocks(dag, two_stage_profile(), clocks_mhz), std::vector<double>{10, 20});
  plan::Plan plan;
  plan.ranks = planned_ops(dag, timeline, clocks_mhz);
  EXPECT_EQ(clocks_for(plan, dag), clocks_mhz);
  ASSERT_EQ(plan.ranks[1].size(), 4U);
  EXPECT_EQ(plan.ranks[1][1].start_s, timeline.start_s[5]);
  EXPECT_EQ(plan.ranks[1][1].duration_s, 4);
}

TEST(ReplayOfPlanFiles, IsTheSameWhateverTheirForm) {
  const schedule::PipelineDag dag = plan::pipeline(2, 2);
  const profile::StageProfile profile = two_stage_profile();
  const auto energy_j = [&](const std::vector<int>& clocks_mhz) {
    return replay(dag, costs_at_clocks(dag, profile, clocks_mhz), std::vector<double>{10, 20}).energy_j_total;
  };
  const std::vector<int> clocks_mhz{1400, 700, 700, 1400, 1400, 1400, 700, 1400};
  plan::Plan plan;
  plan.microbatches = 2;
  plan.ranks =
      planned_ops(dag, replay(dag, costs_at_clocks(dag, profile, clocks_mhz), std::vector<double>{10, 20}), clocks_mhz);
  const plan::PerseusPlan perseus = plan::perseus_plan(dag, clocks_mhz);
  const double expected_j = energy_j(clocks_mhz);
  EXPECT_EQ(energy_j(plan::clocks_for(plan::read_plan(write_plan(plan), "plan.json"), dag)), expected_j);
  EXPECT_EQ(energy_j(plan::clocks_for(plan::read_perseus_plan(write_perseus_plan(perseus, {}), "plan.py"), dag)),
            expected_j);
  const std::string tuples = write_perseus_plan(perseus, {}, plan::PerseusDialect::zeus);
  EXPECT_EQ(energy_j(plan::clocks_for(plan::read_perseus_plan(tuples, "plan.py"), dag)), expected_j);
}

/// Figures of the Perseus artifact's profile at full speed, from an independent replay of it.
TEST(ReplayOnSharedData, OfGpt3AtFullSpeed) {
  const auto text = read_shared("perseus/stage_profile/gpt3-175b+a100_sxm_bf16.csv");
  if (!text) {
    GTEST_SKIP() << kNoSharedData;
  }
  const profile::StageProfile profile = profile::read_stage_profile(*text, "gpt3-175b");
  const schedule::PipelineDag dag = plan::pipeline(8, 12);
  std::vector<int> clocks_mhz(dag.ops.size(), 1410);
  const Timeline timeline = replay(dag, costs_at_clocks(dag, profile, clocks_mhz), std::vector<double>(8, 83.64));
  EXPECT_NEAR(timeline.time_s, 2.8365, 1e-4);
  EXPECT_NEAR(timeline.energy_j_total, 7339.0, 0.1);
}

}  // namespace
}  // namespace lowgear::simulator
