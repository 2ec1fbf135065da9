#include "planning/simulator/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "planning/plan/pipelines.h"
#include "planning/plan/plan_json.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/shared_data.h"
#include "planning/simulator/two_stage_profile.h"

namespace lowgear::simulator {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<double> seconds(const std::vector<OpCost>& costs) {
  std::vector<double> times_s;
  for (const OpCost& cost : costs) {
    times_s.push_back(cost.time_s);
  }
  return times_s;
}

std::vector<double> joules(const std::vector<OpCost>& costs) {
  std::vector<double> energies_j;
  for (const OpCost& cost : costs) {
    energies_j.push_back(cost.energy_j);
  }
  return energies_j;
}

TEST(CostsAtClocks, RefuseClocksThatWereNotMeasured) {
  const schedule::PipelineDag dag = plan::pipeline(2, 1);
  const profile::StageProfile profile = two_stage_profile();
  EXPECT_THAT(seconds(costs_at_clocks(dag, profile, std::vector<int>{1400, 700, 700, 1400})), ElementsAre(1, 4, 2, 2));
  EXPECT_THROW((void)costs_at_clocks(dag, profile, std::vector<int>{1400, 700, 705, 1400}), InputError);
  EXPECT_THROW((void)costs_at_clocks(dag, profile, std::vector<int>{1400, 1500, 700, 1400}), InputError);
}

TEST(SlowedWork, MultipliesTheOpsOfItsStages) {
  const schedule::PipelineDag dag = plan::pipeline(2, 1);
  EXPECT_THAT(slowed_work(dag, {}), IsEmpty());
  EXPECT_THAT(slowed_work(dag, std::vector<StageSlowdown>{{1, 1.5}}), ElementsAre(1, 1, 1.5, 1.5));
  EXPECT_THAT(slowed_work(dag, std::vector<StageSlowdown>{{0, 2}, {1, 2}, {0, 0.25}}), ElementsAre(0.5, 0.5, 2, 2));
}

TEST(SlowedWork, MultipliesTimeAndEnergy) {
  const schedule::PipelineDag dag = plan::pipeline(2, 1);
  const auto slowed_by = [&](const std::vector<StageSlowdown>& slowdowns) {
    const std::vector<double> work = slowed_work(dag, slowdowns);
    return costs_at_clocks(dag, two_stage_profile(), std::vector<int>(4, 1400),
                           {.work = work, .clocks_before_mhz = {}});
  };
  std::vector<OpCost> costs = slowed_by({{1, 1.5}});
  EXPECT_THAT(seconds(costs), ElementsAre(1, 2, 1.5, 3));
  EXPECT_THAT(joules(costs), ElementsAre(100, 300, 165, 465));
  costs = slowed_by({{1, 1.5}, {0, 2}, {1, 2}, {0, 0.25}});
  EXPECT_THAT(seconds(costs), ElementsAre(0.5, 1, 3, 6));
  EXPECT_THAT(joules(costs), ElementsAre(50, 150, 330, 930));
}

TEST(SlowedWork, RefusesStagesAndFactorsOutOfRange) {
  const schedule::PipelineDag dag = plan::pipeline(2, 1);
  const auto error_of = [&](StageSlowdown slowdown) -> std::string {
    return lowgear::error_of([&] { (void)slowed_work(dag, std::vector<StageSlowdown>{slowdown}); });
  };
  EXPECT_THAT(error_of({2, 1.5}), HasSubstr("stage 2"));
  EXPECT_THAT(error_of({-1, 1.5}), HasSubstr("stage -1"));
  EXPECT_THAT(error_of({0, 0}), HasSubstr("factor"));
  EXPECT_THAT(error_of({0, -1}), HasSubstr("factor"));
  EXPECT_THAT(error_of({0, std::nan("")}), HasSubstr("factor"));
  EXPECT_THAT(error_of({0, 1e7}), HasSubstr("factor"));
  EXPECT_EQ(error_of({1, 1e6}), "no error");
}

/// One stage with clocks 1400, 1050 and 700: forwards of 1, 1.5 and 2 s, backwards of 2, 3 and 4 s.
profile::StageProfile one_stage_profile() {
  profile::StageProfile profile(1);
  profile.add(0, OpKind::forward, {1400, 1, 100});
  profile.add(0, OpKind::forward, {1050, 1.5, 75});
  profile.add(0, OpKind::forward, {700, 2, 60});
  profile.add(0, OpKind::backward, {1400, 2, 300});
  profile.add(0, OpKind::backward, {1050, 3, 220});
  profile.add(0, OpKind::backward, {700, 4, 180});
  return profile;
}

/// Costs of one stage's F0 B0 F1 B1 ... at these clocks.
std::vector<OpCost> lagging_costs(const std::vector<int>& clocks_mhz, double latency_s,
                                  const profile::StageProfile& profile = one_stage_profile()) {
  const schedule::PipelineDag dag = plan::pipeline(1, static_cast<int>(clocks_mhz.size()) / 2);
  return costs_with_switch_latency(dag, profile, clocks_mhz, latency_s);
}

TEST(CostsWithSwitchLatency, RunTheBeginningOfAnOpAtTheClockOfTheOneBefore) {
  // F: a quarter of its work (0.5 of 2 s) at 700, the rest at 1400. B: a quarter (0.5 of 2 s) at 1400, the rest at 700.
  const auto costs = lagging_costs({1400, 700}, 0.5);
  EXPECT_THAT(seconds(costs), ElementsAre(0.5 + 0.75 * 1, 0.5 + 0.75 * 4));
  EXPECT_THAT(joules(costs), ElementsAre(0.25 * 60 + 0.75 * 100, 0.25 * 300 + 0.75 * 180));
}

TEST(CostsWithSwitchLatency, CarryALagThatOutlastsTheOp) {
  // F0 whole at 700, 1 s of lag left, which is a quarter of B0. F1 whole at 1400, 2 s left, exactly all of B1.
  const auto costs = lagging_costs({1400, 1400, 700, 700}, 3);
  EXPECT_THAT(seconds(costs), ElementsAre(2, 1 + 0.75 * 2, 1, 2));
  EXPECT_THAT(joules(costs), ElementsAre(60, 0.25 * 180 + 0.75 * 300, 100, 300));
}

TEST(CostsWithSwitchLatency, RedirectAChangeOnItsWayToTheNewestClock) {
  // F0's change to 1400 becomes one to 1050 when B0 begins, with 1 s left. F1's change outlasts it by 1.5 s.
  const auto costs = lagging_costs({1400, 1050, 700, 700}, 3);
  EXPECT_THAT(seconds(costs), ElementsAre(2, 1 + 0.75 * 3, 1.5, 1.5 + 0.5 * 4));
  EXPECT_THAT(joules(costs), ElementsAre(60, 0.25 * 180 + 0.75 * 220, 75, 0.5 * 220 + 0.5 * 180));
}

TEST(CostsWithSwitchLatency, CallAChangeOffWhenTheClockInEffectIsAskedFor) {
  const auto costs = lagging_costs({1400, 700}, 3);
  EXPECT_THAT(seconds(costs), ElementsAre(2, 4));
  EXPECT_THAT(joules(costs), ElementsAre(60, 180));
}

TEST(CostsWithSwitchLatency, StartAnIterationInTheStateThatOneLeaves) {
  // B1's change to 700 outlasts B1 and is called off by F0, so that 700 never takes effect.
  const auto costs = lagging_costs({1400, 1400, 1400, 700}, 3);
  EXPECT_THAT(seconds(costs), ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(joules(costs), ElementsAre(100, 300, 100, 300));
}

TEST(CostsWithSwitchLatency, OfAnIterationWithWorkOfItsOwnBeginAtTheClocksBeforeIt) {
  // F has twice the work: a quarter of it (1 of 4 s) at 700, the rest at 1400. B has half the work.
  const std::vector<double> work{2, 0.5};
  const std::vector<int> before_mhz{700};
  const std::vector<int> clocks_mhz{1400, 1400};
  const auto costs =
      costs_with_switch_latency(plan::pipeline(1, 1), one_stage_profile(), clocks_mhz, 1, {work, before_mhz});
  EXPECT_THAT(seconds(costs), ElementsAre(1 + 0.75 * 2, 1));
  EXPECT_THAT(joules(costs), ElementsAre(0.25 * 120 + 0.75 * 200, 150));
}

TEST(CostsWithSwitchLatency, UseTheNearestMeasuredClockBelowTheOldOne) {
  profile::StageProfile profile(1);
  profile.add(0, OpKind::forward, {1400, 1, 100});
  profile.add(0, OpKind::forward, {500, 3, 50});
  profile.add(0, OpKind::backward, {1300, 2, 300});
  profile.add(0, OpKind::backward, {700, 4, 180});
  // F at 700 is not measured: it begins as at 500. B at 1400 is not measured: it begins as at 1300.
  const auto costs = lagging_costs({1400, 700}, 1, profile);
  EXPECT_THAT(seconds(costs), ElementsAre(1 + (1 - 1.0 / 3) * 1, 1 + 0.5 * 4));
  EXPECT_THAT(joules(costs), ElementsAre(1.0 / 3 * 50 + (1 - 1.0 / 3) * 100, 0.5 * 300 + 0.5 * 180));
}

TEST(CostsWithSwitchLatency, UseTheLowestClockWhereNoneIsBelow) {
  profile::StageProfile profile(1);
  profile.add(0, OpKind::forward, {1400, 1, 100});
  profile.add(0, OpKind::forward, {1200, 2, 90});
  profile.add(0, OpKind::backward, {700, 4, 180});
  EXPECT_THAT(seconds(lagging_costs({1400, 700}, 1, profile)), ElementsAre(1 + 0.5 * 1, 4));
}

TEST(CostsWithSwitchLatency, AreTheMeasuredOnesWithoutLatencyOrWithoutSwitches) {
  const schedule::PipelineDag dag = plan::pipeline(2, 4);
  const profile::StageProfile profile = two_stage_profile();
  std::mt19937 random(2);
  std::vector<int> clocks_mhz(dag.ops.size());
  std::generate(clocks_mhz.begin(), clocks_mhz.end(), [&] { return random() % 2 == 0 ? 700 : 1400; });
  EXPECT_EQ(seconds(costs_with_switch_latency(dag, profile, clocks_mhz, 0)),
            seconds(costs_at_clocks(dag, profile, clocks_mhz)));
  clocks_mhz.assign(dag.ops.size(), 700);
  EXPECT_EQ(joules(costs_with_switch_latency(dag, profile, clocks_mhz, 1e9)),
            joules(costs_at_clocks(dag, profile, clocks_mhz)));
}

TEST(CostsWithSwitchLatency, StayBetweenTheCostsOfTheClocks) {
  const schedule::PipelineDag dag = plan::pipeline(2, 6);
  const profile::StageProfile profile = two_stage_profile();
  std::mt19937 random(4);
  for (int round = 0; round < 100; ++round) {
    std::vector<int> clocks_mhz(dag.ops.size());
    std::generate(clocks_mhz.begin(), clocks_mhz.end(), [&] { return random() % 2 == 0 ? 700 : 1400; });
    const double latency_s = std::uniform_real_distribution<double>(0, 20)(random);
    const auto costs = costs_with_switch_latency(dag, profile, clocks_mhz, latency_s);
    for (std::size_t op = 0; op < costs.size(); ++op) {
      const auto measurements = profile.measurements(dag.ops[op].stage, dag.ops[op].kind);
      EXPECT_GE(costs[op].time_s, measurements.front().time_s - 1e-12);
      EXPECT_LE(costs[op].time_s, measurements.back().time_s + 1e-12);
      EXPECT_LE(costs[op].energy_j, measurements.front().energy_j + 1e-9);
      EXPECT_GE(costs[op].energy_j, measurements.back().energy_j - 1e-9);
    }
  }
}

TEST(CostsWithSwitchLatency, AreAtLeastThoseOfEachIterationWhereTheseNeverBecomeAlike) {
  constexpr std::array kClocksMhz{1400, 1050, 700};
  constexpr std::size_t kIterations = 48;
  std::mt19937 random(3);
  int unlike = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<int> clocks_mhz(2 * (1 + random() % 4));
    std::generate(clocks_mhz.begin(), clocks_mhz.end(), [&] { return kClocksMhz[random() % 3]; });
    const double latency_s = std::uniform_real_distribution<double>(0, 20)(random);
    const std::size_t ops = clocks_mhz.size();
    std::vector<int> all_mhz;
    for (std::size_t i = 0; i < kIterations * ops; ++i) all_mhz.push_back(clocks_mhz[i % ops]);
    const std::vector<double> one = seconds(lagging_costs(clocks_mhz, latency_s));
    const std::vector<double> all = seconds(lagging_costs(all_mhz, latency_s));
    bool is_alike = true;
    for (std::size_t i = all.size() - 8 * ops; i < all.size(); ++i) {
      EXPECT_GE(one[i % ops], all[i] - 1e-9) << "op " << i << " of round " << round;
      is_alike = is_alike && std::abs(all[i] - all[i - ops]) < 1e-9;
    }
    unlike += is_alike ? 0 : 1;
  }
  EXPECT_GT(unlike, 0) << "the test shows nothing";
}

TEST(CostsWithSwitchLatency, RefuseLatenciesThatAreNone) {
  EXPECT_THROW((void)lagging_costs({1400, 700}, -1), InputError);
  EXPECT_THROW((void)lagging_costs({1400, 700}, std::nan("")), InputError);
  EXPECT_THROW((void)lagging_costs({1400, 700}, HUGE_VAL), InputError);
}

/// Clocks 1400 and 700, forwards with two settings at 1400 and one at 700.
profile::StageProfile profile_with_settings() {
  profile::StageProfile profile(1);
  profile.add(0, OpKind::forward, {1400, 1, 100, "sm12"});
  profile.add(0, OpKind::forward, {1400, 1.5, 60, "sm3"});
  profile.add(0, OpKind::forward, {700, 2, 50, "sm12"});
  profile.add(0, OpKind::backward, {1400, 2, 300});
  profile.add(0, OpKind::backward, {700, 4, 180});
  return profile;
}

TEST(CostsAtClocks, AreThoseOfTheSettings) {
  const schedule::PipelineDag dag = plan::pipeline(1, 1);
  const std::vector<int> clocks_mhz{1400, 700};
  EXPECT_THAT(seconds(costs_at_clocks(dag, profile_with_settings(), plan::OpChoices{clocks_mhz, {"sm3", ""}})),
              ElementsAre(1.5, 4));
  EXPECT_THAT(seconds(costs_at_clocks(dag, profile_with_settings(), clocks_mhz)), ElementsAre(1, 4));
  EXPECT_THAT(lowgear::error_of([&] {
                (void)costs_at_clocks(dag, profile_with_settings(), plan::OpChoices{clocks_mhz, {"sm6", ""}});
              }),
              HasSubstr("with setting sm6"));
}

TEST(CostsWithSwitchLatency, KeepASettingAtTheOldClockWhereItWasMeasured) {
  const schedule::PipelineDag dag = plan::pipeline(1, 1);
  // The whole forward runs at 700 MHz, at which sm3 was not measured: it takes what sm12 takes there.
  const auto late =
      costs_with_switch_latency(dag, profile_with_settings(), plan::OpChoices{{1400, 700}, {"sm3", ""}}, 2);
  EXPECT_THAT(seconds(late), ElementsAre(2, 2));
  const auto at_once =
      costs_with_switch_latency(dag, profile_with_settings(), plan::OpChoices{{1400, 700}, {"sm3", ""}}, 0);
  EXPECT_THAT(seconds(at_once), ElementsAre(1.5, 4));
}

using ::testing::ElementsAre;

/// Ops without meaning and random edges from earlier to later ones of a random order.
schedule::PipelineDag random_dag(int ops, std::mt19937& random) {
  schedule::PipelineDag dag;
  dag.ranks = 1;
  dag.stages = 1;
  dag.ops.resize(static_cast<std::size_t>(ops));
  dag.rank_begin = {0, ops};
  dag.topological_order.resize(static_cast<std::size_t>(ops));
  std::iota(dag.topological_order.begin(), dag.topological_order.end(), 0);
  std::shuffle(dag.topological_order.begin(), dag.topological_order.end(), random);
  for (std::size_t to = 1; to < dag.ops.size(); ++to) {
    for (std::size_t from = 0; from < to; ++from) {
      if (random() % 4 == 0) {
        dag.edges.push_back({dag.topological_order[from], dag.topological_order[to]});
      }
    }
  }
  std::shuffle(dag.edges.begin(), dag.edges.end(), random);
  return dag;
}

/// Longest paths by relaxing all edges until nothing changes (Bellman-Ford): knows no topological order.
std::vector<TimePs> start_times_by_relaxation(const schedule::PipelineDag& dag,
                                              const std::vector<TimePs>& duration_ps) {
  std::vector<TimePs> start_ps(duration_ps.size(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (const schedule::DagEdge& edge : dag.edges) {
      const TimePs end_ps =
          start_ps[static_cast<std::size_t>(edge.from)] + duration_ps[static_cast<std::size_t>(edge.from)];
      TimePs& start = start_ps[static_cast<std::size_t>(edge.to)];
      if (end_ps > start) {
        start = end_ps;
        changed = true;
      }
    }
  }
  return start_ps;
}

TEST(TimingGraph, StartsOpsAsSoonAsTheyMay) {
  // Two stages, two microbatches: F0 F1 B0 B1 on rank 0, F0 B0 F1 B1 on rank 1.
  const TimingGraph graph(plan::pipeline(2, 2));
  std::vector<double> start_s(graph.op_count());
  EXPECT_EQ(graph.start_times(std::vector<double>{1, 1, 2, 2, 1, 2, 1, 2}, start_s), 9);
  EXPECT_THAT(start_s, ElementsAre(0, 1, 4, 7, 1, 2, 4, 5));
}

TEST(TimingGraph, OfNothingTakesNoTime) {
  schedule::PipelineDag dag;
  dag.rank_begin = {0};
  EXPECT_EQ(TimingGraph(dag).start_times(std::span<const double>{}, {}), 0);
}

TEST(TimingGraph, AgreesWithRelaxationOnRandomGraphs) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const schedule::PipelineDag dag = random_dag(1 + static_cast<int>(random() % 40), random);
    std::vector<TimePs> duration_ps(dag.ops.size());
    for (TimePs& duration : duration_ps) {
      duration = static_cast<TimePs>(random() % 1000) * 1'000'000'000;
    }
    const std::vector<TimePs> expected = start_times_by_relaxation(dag, duration_ps);
    TimePs expected_makespan = 0;
    for (std::size_t op = 0; op < expected.size(); ++op) {
      expected_makespan = std::max(expected_makespan, expected[op] + duration_ps[op]);
    }
    const TimingGraph graph(dag);
    std::vector<TimePs> start_ps(dag.ops.size(), -1);
    EXPECT_EQ(graph.start_times(duration_ps, start_ps), expected_makespan);
    EXPECT_EQ(start_ps, expected);
  }
}

TEST(TimingGraph, GivesTheSameInSecondsAndPicoseconds) {
  const TimingGraph graph(plan::pipeline(4, 8));
  std::mt19937 random(3);
  std::vector<TimePs> duration_ps(graph.op_count());
  std::vector<double> duration_s(graph.op_count());
  for (std::size_t op = 0; op < duration_ps.size(); ++op) {
    duration_ps[op] = static_cast<TimePs>(random() % 1'000'000) * 1'000'000;
    duration_s[op] = s_from_ps(duration_ps[op]);
  }
  std::vector<TimePs> start_ps(graph.op_count());
  std::vector<double> start_s(graph.op_count());
  const TimePs makespan_ps = graph.start_times(duration_ps, start_ps);
  EXPECT_NEAR(graph.start_times(duration_s, start_s), s_from_ps(makespan_ps), 1e-12);
  for (std::size_t op = 0; op < start_s.size(); ++op) {
    EXPECT_NEAR(start_s[op], s_from_ps(start_ps[op]), 1e-12);
  }
}

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

TEST(ReplayOfPlanFiles, IsThatOfTheirClocks) {
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
  EXPECT_EQ(energy_j(plan::clocks_for(plan::read_plan(write_plan(plan), "plan.json"), dag)), energy_j(clocks_mhz));
}

/// Figures of the Perseus artifact's profile at full speed, from an independent replay of it.
TEST(ReplayOnSharedData, OfGpt3AtFullSpeed) {
  const auto text = read_shared("perseus/stage_profile/gpt3-175b+a100_sxm_bf16.csv");
  if (!text) {
    GTEST_SKIP() << kNoSharedData;
  }
  const profile::StageProfile profile = profile::read_profile_file(*text, "gpt3-175b").profile;
  const schedule::PipelineDag dag = plan::pipeline(8, 12);
  std::vector<int> clocks_mhz(dag.ops.size(), 1410);
  const Timeline timeline = replay(dag, costs_at_clocks(dag, profile, clocks_mhz), std::vector<double>(8, 83.64));
  EXPECT_NEAR(timeline.time_s, 2.8365, 1e-4);
  EXPECT_NEAR(timeline.energy_j_total, 7339.0, 0.1);
}

}  // namespace

}  // namespace lowgear::simulator
