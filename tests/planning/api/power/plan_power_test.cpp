#include "planning/api/power/plan_power.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/core/error_of.h"
#include "planning/api/small_job.h"

namespace lowgear::api {
namespace {

using testing::HasSubstr;

/// What a rank draws at a time, by looking through all its ops.
double power_at(const plan::Plan& plan, const profile::StageProfile& profile, std::size_t rank, double blocking_w,
                double time_s) {
  for (const plan::PlannedOp& op : plan.ranks[rank]) {
    if (time_s < op.start_s || time_s >= op.start_s + op.duration_s) continue;
    const profile::Measurement& row = profile.at_clock(op.stage, op.kind, op.clock_mhz);
    return row.energy_j / row.time_s;
  }
  return blocking_w;
}

/// Peak and mean of some GPUs, sampled.
struct Sampled {
  double peak_w = 0;
  double mean_w = 0;
};

Sampled sample(const plan::Plan& plan, const profile::StageProfile& profile, const std::vector<GpuGroup>& gpus,
               int node) {
  const auto total_w = [&](double time_s) {
    double power_w = 0;
    for (const GpuGroup& group : gpus) {
      if (node >= 0 && group.node != node) continue;
      power_w += group.gpus * power_at(plan, profile, static_cast<std::size_t>(group.rank), 80, time_s);
    }
    return power_w;
  };
  Sampled sampled;
  const auto see = [&](double time_s) { sampled.peak_w = std::max(sampled.peak_w, total_w(time_s)); };
  constexpr int kSamples = 5'000;
  for (int i = 0; i < kSamples; ++i) {
    const double time_s = plan.time_s * (i + 0.5) / kSamples;
    see(time_s);
    sampled.mean_w += total_w(time_s) / kSamples;
  }
  // Levels that last less than the distance of samples begin where an op begins or ends.
  for (const auto& ops : plan.ranks) {
    for (const plan::PlannedOp& op : ops) {
      for (const double time_s : {op.start_s, op.start_s + op.duration_s}) {
        if (time_s + 1e-6 < plan.time_s) see(time_s + 1e-6);
      }
    }
  }
  return sampled;
}

TEST(PlanPower, IsWhatBruteForceSamplingFinds) {
  const profile::StageProfile profile = small_profile();
  planner::PipelinePlanner planner(small_schedule(), profile, kSmallBlockingW, {});
  const std::vector<GpuGroup> gpus = {{0, 0, 2}, {1, 0, 2}, {2, 1, 2}, {3, 1, 1}, {3, 2, 1}};
  for (const double share : {0.0, 0.2, 0.5, 1.0}) {
    const plan::Plan plan = planner.plan(planner.fastest_s() + share * (planner.slowest_s() - planner.fastest_s()));
    const auto traces = rank_power(plan, profile, kSmallBlockingW);
    const PlanPower power = plan_power(traces, gpus, steady_phase(plan));
    const Sampled job = sample(plan, profile, gpus, -1);
    EXPECT_NEAR(power.job.peak_w, job.peak_w, 1e-3);
    EXPECT_NEAR(power.job.mean_w, job.mean_w, 0.002 * job.mean_w);
    ASSERT_EQ(power.nodes.size(), 3);
    for (const NodePower& node : power.nodes) {
      const Sampled sampled = sample(plan, profile, gpus, node.node);
      EXPECT_NEAR(node.power.peak_w, sampled.peak_w, 1e-3) << node.node;
      EXPECT_NEAR(node.power.mean_w, sampled.mean_w, 0.002 * sampled.mean_w) << node.node;
    }
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const Sampled one = sample(plan, profile, {{static_cast<int>(rank), 0, 1}}, -1);
      EXPECT_NEAR(power.gpus[rank].peak_w, one.peak_w, 1e-3);
    }
  }
}

TEST(PlanPower, MeanTimesTimeIsThePlansEnergy) {
  const profile::StageProfile profile = small_profile();
  planner::PipelinePlanner planner(small_schedule(), profile, kSmallBlockingW, {});
  const plan::Plan plan = planner.plan(planner.fastest_s() * 1.05);
  const auto traces = rank_power(plan, profile, kSmallBlockingW);
  const PlanPower power =
      plan_power(traces, std::vector<GpuGroup>{{0, 0, 1}, {1, 0, 1}, {2, 0, 1}, {3, 0, 1}}, steady_phase(plan));
  EXPECT_NEAR(power.job.mean_w * plan.time_s, plan.energy_j, 1e-6 * plan.energy_j);
  EXPECT_EQ(power.nodes.at(0).power.peak_w, power.job.peak_w);
}

/// Two ranks, one forward and one backward each, one clock.
struct TwoRanks {
  plan::Plan plan;
  profile::StageProfile profile{2};

  TwoRanks() {
    profile.add(0, OpKind::forward, {1000, 1, 200});
    profile.add(0, OpKind::backward, {1000, 2, 600});
    profile.add(1, OpKind::forward, {1000, 1, 300});
    profile.add(1, OpKind::backward, {1000, 2, 800});
    plan.time_s = 6;
    plan.ranks = {{{0, OpKind::forward, 0, 1000, 0, 1}, {0, OpKind::backward, 0, 1000, 4, 2}},
                  {{1, OpKind::forward, 0, 1000, 1, 1}, {1, OpKind::backward, 0, 1000, 2, 2}}};
  }
};

TEST(PlanPower, IsBlockingPowerBetweenOps) {
  const TwoRanks job;
  const auto traces = rank_power(job.plan, job.profile, std::vector{50.0, 60.0});
  ASSERT_EQ(traces[0].steps.size(), 3);
  EXPECT_EQ(traces[0].steps[1].power_w, 50);
  EXPECT_EQ(traces[0].steps[2].power_w, 300);
  ASSERT_EQ(traces[1].steps.size(), 4);
  EXPECT_EQ(traces[1].steps[0].power_w, 60);
  const PlanPower power = plan_power(traces, std::vector<GpuGroup>{{0, 0, 1}, {1, 0, 1}}, steady_phase(job.plan));
  EXPECT_EQ(power.job.peak_w, 450) << "400 W and a rank that waits; the ops do not overlap";
}

TEST(PlanPower, SwingIsBetweenPhases) {
  const TwoRanks job;
  const SteadyPhase steady = steady_phase(job.plan);
  EXPECT_EQ(steady.begin_s, 1);
  EXPECT_EQ(steady.end_s, 4);
  const auto traces = rank_power(job.plan, job.profile, std::vector{50.0, 60.0});
  const PlanPower power = plan_power(traces, std::vector<GpuGroup>{{0, 0, 1}, {1, 0, 1}}, steady);
  // Filling: 200 + 60. Steady: (350 + 2 x 450) / 3. Draining: 300 + 60.
  EXPECT_NEAR(power.phase_swing_w, (350 + 900) / 3.0 - 260, 1e-9);
}

TEST(PlanPower, APipelineOfOneRankHasNoSwingBetweenPhases) {
  TwoRanks job;
  job.plan.ranks.resize(1);
  job.plan.ranks[0][1].start_s = 1;
  const auto traces = rank_power(job.plan, job.profile, std::vector{50.0});
  EXPECT_EQ(plan_power(traces, std::vector<GpuGroup>{{0, 0, 8}}, steady_phase(job.plan)).phase_swing_w, 0);
}

TEST(PlanPower, WaitsUntilALaterEnd) {
  const TwoRanks job;
  const auto traces = rank_power(job.plan, job.profile, std::vector{50.0, 60.0}, 10);
  EXPECT_EQ(traces[0].end_s, 10);
  EXPECT_EQ(traces[0].steps.back().power_w, 50);
  EXPECT_NEAR(mean_w(traces[0]) * 10, 200 + 600 + 7 * 50, 1e-9);
}

TEST(PlanPower, RefusesBadInput) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto error = [](auto change) {
    TwoRanks job;
    change(job);
    return error_of([&] { (void)rank_power(job.plan, job.profile, std::vector{50.0, 60.0}); });
  };
  EXPECT_THAT(error([](TwoRanks& job) { job.plan.ranks[0][1].start_s = 0.5; }), HasSubstr("rank 0: op 1"));
  EXPECT_THAT(error([](TwoRanks& job) { job.plan.ranks[1][0].start_s = kNan; }), HasSubstr("rank 1: op 0"));
  EXPECT_THAT(error([](TwoRanks& job) { job.plan.ranks[1][0].duration_s = -1; }), HasSubstr("rank 1: op 0"));
  EXPECT_THAT(error([](TwoRanks& job) { job.plan.ranks[1][1].duration_s = 1e9; }), HasSubstr("at most"));
  EXPECT_THAT(error([](TwoRanks& job) { job.plan.ranks[0][0].clock_mhz = 900; }), HasSubstr("900"));
  EXPECT_THAT(error([](TwoRanks& job) { job.plan.ranks.pop_back(); }), HasSubstr("2 blocking powers for 1 ranks"));
  const TwoRanks job;
  const auto traces = rank_power(job.plan, job.profile, std::vector{50.0, 60.0});
  const auto group_error = [&](std::vector<GpuGroup> gpus) {
    return error_of([&] { (void)plan_power(traces, gpus, {}); });
  };
  EXPECT_THAT(group_error({{2, 0, 1}}), HasSubstr("GPUs of rank 2"));
  EXPECT_THAT(group_error({{0, 0, 0}}), HasSubstr("0 GPUs"));
  EXPECT_THAT(group_error({}), HasSubstr("1 to 1000000"));
  EXPECT_THAT(group_error({{0, 0, 2'000'000'000}, {1, 0, 2'000'000'000}}), HasSubstr("1 to 1000000"));
}

TEST(PowerTrace, TakesTimesThatDifferByRoundingForOne) {
  const PowerTrace first{{{0, 100}, {1, 0}}, 2};
  const PowerTrace second{{{0, 0}, {1 - 1e-12, 100}}, 2};
  const PowerTrace total = sum(std::vector<PowerShare>{{&first, 1}, {&second, 1}});
  EXPECT_EQ(peak_w(total), 100);
  EXPECT_EQ(mean_w(total, 0.5, 1.5), 100);
}

}  // namespace
}  // namespace lowgear::api
