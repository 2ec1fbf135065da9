#include "planning/planner/planners/latency_planner.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "planning/planner/planners/pipeline_planner.h"
#include "planning/planner/random_instances.h"
#include "planning/planner/random_pipelines.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/replay.h"

namespace lowgear::planner {

namespace {

using ::testing::Each;
using ::testing::ElementsAre;

/// Two uneven ranks under 1F1B, at clocks that save energy all the way down.
SamplePipeline two_ranks(int microbatches, double blocking_power_w = 10) {
  SamplePipeline pipeline;
  pipeline.schedule = schedule::one_f_one_b_schedule(2, microbatches);
  pipeline.dag = build_dag(pipeline.schedule);
  pipeline.profile = profile::StageProfile(2);
  for (int stage = 0; stage < 2; ++stage) {
    for (int clock_mhz = 1400; clock_mhz >= 800; clock_mhz -= 100) {
      const double slowness = 1400.0 / clock_mhz;
      const double time_s = (stage == 0 ? 0.10 : 0.12) * slowness;
      const double energy_j = time_s * (100 + 200 / (slowness * slowness * slowness));
      pipeline.profile.add(stage, OpKind::forward, {clock_mhz, time_s, energy_j});
      pipeline.profile.add(stage, OpKind::backward, {clock_mhz, 2 * time_s, 2 * energy_j});
    }
  }
  pipeline.blocking_power_w = {blocking_power_w, blocking_power_w};
  return pipeline;
}

plan::Plan plan_with(const SamplePipeline& pipeline, PlannerOptions options, double relative_deadline) {
  PipelinePlanner planner(pipeline.schedule, pipeline.profile, pipeline.blocking_power_w, options);
  return planner.plan(planner.fastest_s() + relative_deadline * (planner.slowest_s() - planner.fastest_s()));
}

TEST(LatencyPlanner, ReplaysWithTheLatency) {
  const SamplePipeline pipeline = two_ranks(3);
  std::vector<int> clocks_mhz(pipeline.dag.ops.size(), 1400);
  clocks_mhz[1] = 800;
  for (const double latency_s : {0.0, 0.05}) {
    const LatencyPlanner planner(pipeline.dag, pipeline.profile, pipeline.blocking_power_w, latency_s);
    const ReplayedClocks replayed = planner.replayed(clocks_mhz);
    const simulator::Timeline expected = simulator::replay(
        pipeline.dag, simulator::costs_with_switch_latency(pipeline.dag, pipeline.profile, clocks_mhz, latency_s),
        pipeline.blocking_power_w);
    EXPECT_EQ(replayed.clocks_mhz, clocks_mhz);
    EXPECT_EQ(replayed.timeline.time_s, expected.time_s);
    EXPECT_EQ(replayed.timeline.energy_j_total, expected.energy_j_total);
  }
}

TEST(LatencyPlanner, KeepsEveryDeadlineOnRandomPipelines) {
  std::mt19937_64 random(21);
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE("pipeline " + std::to_string(i));
    const RandomPipelineLimits limits{.max_microbatches = 6};
    const SamplePipeline pipeline = random_pipeline(random, limits);
    PlannerOptions options;
    options.switch_latency_s = 1e-3 * static_cast<double>(random_in(random, 1, 60));
    options.granularity = i % 4 == 0 ? PlanGranularity::per_stage_kind : PlanGranularity::per_op;
    PipelinePlanner planner(pipeline.schedule, pipeline.profile, pipeline.blocking_power_w, options);
    for (const double share : {0.0, 0.1 * static_cast<double>(random_in(random, 0, 10))}) {
      const double deadline_s = planner.fastest_s() + share * (planner.slowest_s() - planner.fastest_s());
      const plan::Plan plan = planner.plan(deadline_s);
      const std::vector<simulator::OpCost> costs = simulator::costs_with_switch_latency(
          pipeline.dag, pipeline.profile, clocks_for(plan, pipeline.dag), options.switch_latency_s);
      const simulator::Timeline timeline = replay(pipeline.dag, costs, pipeline.blocking_power_w);
      EXPECT_EQ(plan.time_s, timeline.time_s);
      EXPECT_EQ(plan.energy_j, timeline.energy_j_total);
      EXPECT_LE(plan.time_s, deadline_s + 1e-12);
    }
  }
}

TEST(LatencyPlanner, PlansFewerChangesTheLaterTheyTakeEffect) {
  const SamplePipeline pipeline = two_ranks(8, 80);
  std::vector<int> switches;
  for (const double latency_s : {0.0, 0.01, 0.1, 10.0}) {
    PlannerOptions options;
    options.switch_latency_s = latency_s;
    switches.push_back(plan_with(pipeline, options, 0.3).switches);
  }
  EXPECT_TRUE(std::ranges::is_sorted(switches, std::greater<>())) << testing::PrintToString(switches);
  EXPECT_GT(switches.front(), 4);
  EXPECT_EQ(switches.back(), 0);
}

TEST(LatencyPlanner, IsInTimeWhereAPlanMadeWithoutRegardToLatencyIsLate) {
  const SamplePipeline pipeline = two_ranks(8);
  PlannerOptions options;
  const plan::Plan regardless = plan_with(pipeline, options, 0.3);
  options.switch_latency_s = 0.05;
  const plan::Plan regardful = plan_with(pipeline, options, 0.3);
  const LatencyPlanner latency(pipeline.dag, pipeline.profile, pipeline.blocking_power_w, options.switch_latency_s);
  EXPECT_GT(latency.replayed(clocks_for(regardless, pipeline.dag)).timeline.time_s, regardless.deadline_s);
  EXPECT_LE(regardful.time_s, regardful.deadline_s);
  EXPECT_EQ(regardful.deadline_s, regardless.deadline_s);
}

TEST(LatencyPlanner, SavesEnergyAtTheShortestTimeByAskingForRisesInAdvance) {
  const SamplePipeline pipeline = two_ranks(6, 40);
  PlannerOptions options;
  options.switch_latency_s = 0.025;
  const plan::Plan plan = plan_with(pipeline, options, 0);
  const LatencyPlanner latency(pipeline.dag, pipeline.profile, pipeline.blocking_power_w, options.switch_latency_s);
  const ReplayedClocks fastest = latency.replayed(std::vector<int>(pipeline.dag.ops.size(), 1400));
  EXPECT_LE(plan.time_s, fastest.timeline.time_s + 1e-12);
  EXPECT_LT(plan.energy_j, 0.98 * fastest.timeline.energy_j_total);
  EXPECT_GT(plan.switches, 0);
}

TEST(LatencyPlanner, IsInTimeWhereverAPlanWithoutLatencyIs) {
  std::mt19937_64 random(22);
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE("pipeline " + std::to_string(i));
    const RandomPipelineLimits limits{.max_microbatches = 5};
    SamplePipeline pipeline = random_pipeline(random, limits);
    // All stages at the clocks of the first: a clock can then be asked for in any op.
    profile::StageProfile profile(pipeline.profile.stages());
    for (int stage = 0; stage < profile.stages(); ++stage) {
      for (const OpKind kind : kScheduledKinds) {
        if (!pipeline.profile.has(stage, kind)) continue;
        const profile::Measurement& fastest = pipeline.profile.at_max_clock(stage, kind);
        for (const double slowness : {1.0, 1.2, 1.5}) {
          profile.add(stage, kind,
                      {static_cast<int>(1200 / slowness), slowness * fastest.time_s, fastest.energy_j / slowness});
        }
      }
    }
    const double latency_s = 1e-3 * static_cast<double>(random_in(random, 1, 200));
    const LatencyPlanner planner(pipeline.dag, profile, pipeline.blocking_power_w, latency_s);
    std::vector<int> clocks_mhz;
    for (std::size_t op = 0; op < pipeline.dag.ops.size(); ++op) {
      clocks_mhz.push_back(std::array{1200, 1000, 800}.at(static_cast<std::size_t>(random_in(random, 0, 2))));
    }
    const simulator::Timeline at_once = simulator::replay(
        pipeline.dag, simulator::costs_at_clocks(pipeline.dag, profile, clocks_mhz), pipeline.blocking_power_w);
    const TimePs deadline_ps = ps_from_s(at_once.time_s + 1e-9);
    const std::vector<LatencyPlanner::Proposal> proposals{[&](TimePs) { return std::optional(clocks_mhz); }};
    const std::optional<ReplayedClocks> plan = planner.plan(proposals, deadline_ps, deadline_ps);
    ASSERT_TRUE(plan.has_value());
    EXPECT_LE(plan->timeline.time_s, at_once.time_s + 2e-9);
  }
}

TEST(LatencyPlanner, TakesTheBestProposal) {
  const SamplePipeline pipeline = two_ranks(2);
  const LatencyPlanner planner(pipeline.dag, pipeline.profile, pipeline.blocking_power_w, 0.1);
  std::vector<LatencyPlanner::Proposal> proposals{[](TimePs) { return std::optional<std::vector<int>>(); }};
  for (const int clock_mhz : {1400, 800, 1100}) {
    proposals.emplace_back(
        [&, clock_mhz](TimePs) { return std::optional(std::vector<int>(pipeline.dag.ops.size(), clock_mhz)); });
  }
  const std::optional<ReplayedClocks> plan = planner.plan(proposals, ps_from_s(0.1), ps_from_s(10));
  ASSERT_TRUE(plan.has_value());
  EXPECT_THAT(plan->clocks_mhz, Each(800)) << "what uses least energy";
}

TEST(LatencyPlanner, TakesOutChangesThatDoNotPay) {
  const SamplePipeline pipeline = two_ranks(3);
  const LatencyPlanner planner(pipeline.dag, pipeline.profile, pipeline.blocking_power_w, 0.05);
  std::vector<int> restless;
  for (std::size_t op = 0; op < pipeline.dag.ops.size(); ++op) restless.push_back(op % 2 == 0 ? 800 : 1400);
  const std::vector<LatencyPlanner::Proposal> proposals{[&](TimePs) { return std::optional(restless); }};
  const ReplayedClocks before = planner.replayed(restless);
  const std::optional<ReplayedClocks> plan = planner.plan(proposals, ps_from_s(0.1), ps_from_s(10));
  ASSERT_TRUE(plan.has_value());
  EXPECT_LT(plan->timeline.energy_j_total, before.timeline.energy_j_total);
  const auto switches = [&pipeline](const ReplayedClocks& clocks) {
    return count_switches(planned_ops(pipeline.dag, clocks.timeline, clocks.clocks_mhz));
  };
  EXPECT_EQ(switches(before), 12);
  EXPECT_LT(switches(*plan), 12);
}

TEST(LatencyPlanner, TakesOutChangesThatNeverTakeEffect) {
  const SamplePipeline pipeline = two_ranks(3);
  const LatencyPlanner planner(pipeline.dag, pipeline.profile, pipeline.blocking_power_w, 1);
  // By the time the lag is over, the next op has called the change off.
  std::vector<int> clocks_mhz(pipeline.dag.ops.size(), 1400);
  clocks_mhz[1] = 1300;
  const std::vector<LatencyPlanner::Proposal> proposals{[&](TimePs) { return std::optional(clocks_mhz); }};
  const TimePs time_ps = ps_from_s(planner.replayed(clocks_mhz).timeline.time_s);
  const std::optional<ReplayedClocks> plan = planner.plan(proposals, time_ps, time_ps);
  ASSERT_TRUE(plan.has_value());
  EXPECT_THAT(plan->clocks_mhz, Each(1400));
}

TEST(LatencyPlanner, FindsNoneWhenNoProposalIsInTime) {
  const SamplePipeline pipeline = two_ranks(2);
  const LatencyPlanner planner(pipeline.dag, pipeline.profile, pipeline.blocking_power_w, 0.01);
  const std::vector<int> slow(pipeline.dag.ops.size(), 800);
  const std::vector<LatencyPlanner::Proposal> proposals{[&](TimePs) { return std::optional(slow); }};
  const TimePs slow_ps = ps_from_s(planner.replayed(slow).timeline.time_s);
  EXPECT_FALSE(planner.plan(proposals, slow_ps / 2, slow_ps - 1).has_value());
  const std::optional<ReplayedClocks> plan = planner.plan(proposals, slow_ps / 2, slow_ps);
  ASSERT_TRUE(plan.has_value());
  EXPECT_THAT(plan->clocks_mhz, Each(800));
}

TEST(LatencyPlanner, AsksForTighterDeadlinesWhereAPlanIsLate) {
  const SamplePipeline pipeline = two_ranks(1);
  const LatencyPlanner planner(pipeline.dag, pipeline.profile, pipeline.blocking_power_w, 0);
  // A way of planning whose plans take a fifth longer than it was asked for.
  const std::vector<int> steps_mhz{800, 900, 1000, 1100, 1200, 1300, 1400};
  const LatencyPlanner::Proposal late = [&](TimePs asked_ps) -> std::optional<std::vector<int>> {
    for (const int clock_mhz : steps_mhz) {
      std::vector<int> clocks_mhz(pipeline.dag.ops.size(), clock_mhz);
      if (planner.replayed(clocks_mhz).timeline.time_s <= 1.2 * s_from_ps(asked_ps)) return clocks_mhz;
    }
    return std::nullopt;
  };
  const double fastest_s = planner.replayed({1400, 1400, 1400, 1400}).timeline.time_s;
  const double deadline_s = planner.replayed({1000, 1000, 1000, 1000}).timeline.time_s + 1e-6;
  const std::optional<ReplayedClocks> plan =
      planner.plan(std::vector<LatencyPlanner::Proposal>{late}, ps_from_s(fastest_s / 1.2), ps_from_s(deadline_s));
  ASSERT_TRUE(plan.has_value());
  EXPECT_LE(plan->timeline.time_s, deadline_s);
  EXPECT_THAT(plan->clocks_mhz, ElementsAre(1000, 1000, 1000, 1000));
}

constexpr int kRanks = 3;
constexpr int kMicrobatches = 6;
const std::vector<double> kBlockingW(kRanks, 80);

/// Of stages that take 1, 1.2 and 1.4 times as long; the input gradient of stage 0 takes no time at any clock.
profile::StageProfile profile_with_empty_input_gradient() {
  profile::StageProfile profile(kRanks);
  for (int stage = 0; stage < kRanks; ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::input_gradient, OpKind::weight_gradient}) {
      for (const int clock_mhz : {1980, 1650, 1320, 990}) {
        const bool is_empty = stage == 0 && kind == OpKind::input_gradient;
        const double time_s = is_empty ? 1e-5 : 0.05 * (1 + 0.2 * stage) * (0.3 + 0.7 * 1980 / clock_mhz);
        const double power_w = is_empty ? 80 : 100 + 500.0 * clock_mhz / 1980 * clock_mhz / 1980;
        profile.add(stage, kind, {clock_mhz, time_s, time_s * power_w});
      }
    }
  }
  return profile;
}

schedule::PipelineDag zero_bubble() { return schedule::build_dag(schedule::zb_h1_schedule(kRanks, kMicrobatches)); }

simulator::Timeline replay_of(const schedule::PipelineDag& dag, const std::vector<int>& clocks_mhz) {
  const profile::StageProfile profile = profile_with_empty_input_gradient();
  return simulator::replay(dag, simulator::costs_at_clocks(dag, profile, clocks_mhz), kBlockingW);
}

bool is_empty(const schedule::ComputeOp& op) { return op.stage == 0 && op.kind == OpKind::input_gradient; }

TEST(NeedlessChanges, AreTakenOutWhereTheClockMakesNoDifference) {
  const schedule::PipelineDag dag = zero_bubble();
  const profile::StageProfile profile = profile_with_empty_input_gradient();
  std::vector<int> clocks_mhz;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    clocks_mhz.push_back(is_empty(dag.ops[op]) ? 990 : (op % 2 == 0 ? 1980 : 1650));
  }
  const std::vector<int> fewer_mhz =
      without_needless_changes(dag, profile, kBlockingW, PlanGranularity::per_op, {clocks_mhz, {}}).clocks_mhz;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    EXPECT_EQ(fewer_mhz[op], is_empty(dag.ops[op]) ? fewer_mhz[op - 1] : clocks_mhz[op]) << op;
  }
  EXPECT_EQ(replay_of(dag, fewer_mhz).time_s, replay_of(dag, clocks_mhz).time_s);
  EXPECT_DOUBLE_EQ(replay_of(dag, fewer_mhz).energy_j_total, replay_of(dag, clocks_mhz).energy_j_total);
}

TEST(NeedlessChanges, KeepOneClockPerStageAndKindWhereTheyShareIt) {
  const schedule::PipelineDag dag = zero_bubble();
  std::vector<int> clocks_mhz;
  for (const schedule::ComputeOp& op : dag.ops) clocks_mhz.push_back(op.kind == OpKind::forward ? 1650 : 990);
  const std::vector<int> fewer_mhz = without_needless_changes(dag, profile_with_empty_input_gradient(), kBlockingW,
                                                              PlanGranularity::per_stage_kind, {clocks_mhz, {}})
                                         .clocks_mhz;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    EXPECT_EQ(fewer_mhz[op], is_empty(dag.ops[op]) ? 1650 : clocks_mhz[op]) << op;
  }
}

TEST(NeedlessChanges, AreInNoPlan) {
  const profile::StageProfile profile = profile_with_empty_input_gradient();
  for (const PlanGranularity granularity : {PlanGranularity::per_op, PlanGranularity::per_stage_kind}) {
    PlannerOptions options;
    options.granularity = granularity;
    PipelinePlanner planner(schedule::zb_h1_schedule(kRanks, kMicrobatches), profile, kBlockingW, options);
    for (const double share : {0.0, 0.5, 1.0}) {
      SCOPED_TRACE(share);
      const plan::Plan plan = planner.plan(planner.fastest_s() + share * (planner.slowest_s() - planner.fastest_s()));
      EXPECT_LE(plan.time_s, plan.deadline_s * (1 + 1e-12));
      EXPECT_EQ(plan.switches, count_switches(plan.ranks));
      const std::vector<plan::PlannedOp>& first_rank = plan.ranks.front();
      for (std::size_t at = 1; at < first_rank.size(); ++at) {
        if (first_rank[at].kind != OpKind::input_gradient) continue;
        EXPECT_EQ(first_rank[at].clock_mhz, first_rank[at - 1].clock_mhz) << at;
        if (granularity == PlanGranularity::per_stage_kind) break;  // others share it
      }
    }
  }
}

}  // namespace

}  // namespace lowgear::planner
