#include "planning/simulator/op_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "planning/plan/pipelines.h"
#include "planning/simulator/two_stage_profile.h"

namespace lowgear::simulator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

TEST(ApplySlowdowns, MultiplyTimeAndEnergyOfTheirStages) {
  const schedule::PipelineDag dag = plan::pipeline(2, 1);
  std::vector<OpCost> costs{{1, 100}, {2, 300}, {1, 100}, {2, 300}};
  apply_slowdowns(dag, std::vector<StageSlowdown>{{1, 1.5}}, costs);
  EXPECT_THAT(seconds(costs), ElementsAre(1, 2, 1.5, 3));
  EXPECT_THAT(joules(costs), ElementsAre(100, 300, 150, 450));
  apply_slowdowns(dag, std::vector<StageSlowdown>{{0, 2}, {1, 2}, {0, 0.25}}, costs);
  EXPECT_THAT(seconds(costs), ElementsAre(0.5, 1, 3, 6));
  EXPECT_THAT(joules(costs), ElementsAre(50, 150, 300, 900));
}

TEST(ApplySlowdowns, RefuseStagesAndFactorsOutOfRange) {
  const schedule::PipelineDag dag = plan::pipeline(2, 1);
  const auto error_of = [&](StageSlowdown slowdown) -> std::string {
    std::vector<OpCost> costs(dag.ops.size(), {1, 1});
    return lowgear::error_of([&] { apply_slowdowns(dag, std::vector<StageSlowdown>{slowdown}, costs); });
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

}  // namespace
}  // namespace lowgear::simulator
