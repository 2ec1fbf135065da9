#include "planning/simulator/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "planning/plan/perseus_plan.h"
#include "planning/plan/pipelines.h"
#include "planning/plan/plan_json.h"
#include "planning/schedule/generators.h"
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

/// When each op starts, by relaxing every dependency of the definition until nothing moves.
std::vector<double> starts_by_definition(const schedule::PipelineDag& dag, const std::vector<OpCost>& costs) {
  const auto is_gradient = [](OpKind kind) { return kind == OpKind::backward || kind == OpKind::recomputing_backward; };
  const auto needs = [&](const schedule::ComputeOp& to, const schedule::ComputeOp& from) {
    if (to.microbatch != from.microbatch) return false;
    if (from.kind == OpKind::forward && to.kind == OpKind::forward) return from.stage == to.stage - 1;
    if (is_gradient(from.kind) && is_gradient(to.kind)) return from.stage == to.stage + 1;
    if (from.stage != to.stage || is_gradient(from.kind)) return false;
    return from.kind == OpKind::forward || is_gradient(to.kind);
  };
  std::vector<double> start(dag.ops.size(), 0.0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t to = 0; to < dag.ops.size(); ++to) {
      for (std::size_t from = 0; from < dag.ops.size(); ++from) {
        const bool in_order = from + 1 == to && dag.ops[from].rank == dag.ops[to].rank;
        if (from == to || (!in_order && !needs(dag.ops[to], dag.ops[from]))) continue;
        if (start[from] + costs[from].time_s <= start[to]) continue;
        start[to] = start[from] + costs[from].time_s;
        moved = true;
      }
    }
  }
  return start;
}

TEST(Replay, OfRecomputationsStartsWhatTheDefinitionLetsStart) {
  std::mt19937 random(18);
  for (const std::string name :
       {"merak-1f1b", "merak-early-recompute", "merak-last-no-recompute", "merak-full-critical-path"}) {
    for (int trial = 0; trial < 30; ++trial) {
      const int ranks = 1 + static_cast<int>(random() % 5);
      const int microbatches = 3 + static_cast<int>(random() % 6);
      const schedule::PipelineDag dag = build_dag(schedule::make_schedule({name, ranks, microbatches, 1, {}}));
      std::vector<OpCost> costs;
      for (std::size_t op = 0; op < dag.ops.size(); ++op) costs.push_back({1.0 + static_cast<double>(random() % 9), 1});
      const Timeline timeline = replay(dag, costs, std::vector<double>(static_cast<std::size_t>(ranks), 0.0));
      ASSERT_EQ(timeline.start_s, starts_by_definition(dag, costs)) << name << ", trial " << trial;
    }
  }
}

TEST(Replay, RunsARecomputationWhileTheGradientIsWaitedFor) {
  // Forwards take 1, backwards 2, recomputations 1: rank 0 would wait from 2 to 6.
  const auto time_of = [](const std::string& name) {
    const schedule::PipelineDag dag = build_dag(schedule::make_schedule({name, 2, 1, 1, {}}));
    std::vector<OpCost> costs;
    for (const schedule::ComputeOp& op : dag.ops) {
      costs.push_back({op.kind == OpKind::backward ? 2.0 : op.kind == OpKind::recomputing_backward ? 3.0 : 1.0, 1});
    }
    return replay(dag, costs, std::vector<double>(2, 0.0)).time_s;
  };
  EXPECT_EQ(time_of("merak-1f1b"), 8);
  EXPECT_EQ(time_of("merak-early-recompute"), 7);
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
