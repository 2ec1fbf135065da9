#include "rivals/policies/envpipe/envpipe_offline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/sample_problem.h"
#include "rivals/policies/envpipe/critical_path.h"
#include "rivals/policies/envpipe/envpipe_sweep.h"

namespace lowgear::policies {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kUnitS = 1e-3;

TEST(OuterEnvelope, IsTheLastStageAndTheFirstForwardsAndTheLastBackwards) {
  const schedule::PipelineDag dag = schedule::build_dag(schedule::one_f_one_b_schedule(3, 4));
  const std::vector<bool> envelope = outer_envelope(dag);
  int count = 0;
  for (std::size_t op = 0; op < envelope.size(); ++op) {
    const schedule::ComputeOp& compute = dag.ops[op];
    const bool expected = compute.stage == 2 || (compute.kind == OpKind::forward && compute.microbatch == 0) ||
                          (compute.kind == OpKind::backward && compute.microbatch == 3);
    EXPECT_EQ(envelope[op], expected) << op;
    count += envelope[op] ? 1 : 0;
  }
  EXPECT_EQ(count, 8 + 2 * 2);
}

/// Whatever the profile: the envelope runs at the highest clock, nothing runs slower than its slowest Pareto option,
/// and the critical path that is looked at last cannot become faster.
void expect_settled(const planner::SampleProblem& sample, const planner::PolicyPlan& plan) {
  const schedule::PipelineDag& dag = sample.dag();
  const std::vector<bool> envelope = outer_envelope(dag);
  std::vector<int> units;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    const auto [rank, stage, kind, microbatch] = dag.ops[op];
    const auto measurements = sample.profile().measurements(stage, kind);
    EXPECT_TRUE(!envelope[op] || plan.clocks_mhz[op] == measurements.front().clock_mhz) << op;
    EXPECT_GE(plan.clocks_mhz[op], quantised_options(measurements, kUnitS).back().clock_mhz);
    units.push_back(whole_units(sample.profile().at_clock(stage, kind, plan.clocks_mhz[op]).time_s, kUnitS));
  }
  for (const int op : CriticalPathFinder(dag).find(units)) {
    EXPECT_EQ(plan.clocks_mhz[static_cast<std::size_t>(op)],
              sample.profile()
                  .at_max_clock(dag.ops[static_cast<std::size_t>(op)].stage, dag.ops[static_cast<std::size_t>(op)].kind)
                  .clock_mhz);
  }
}

TEST(EnvPipeOffline, SavesEnergyAtAboutTheBaselinesTimeWithAHeavyLastStage) {
  const planner::SampleProblem sample = planner::four_stages(8);
  const planner::PolicyPlan plan = EnvPipeOfflinePolicy(kUnitS).plan(sample.problem(), std::nullopt);
  expect_settled(sample, plan);
  const simulator::Timeline planned = replay_clocks(sample.problem(), plan.clocks_mhz);
  const simulator::Timeline fastest = replay_clocks(sample.problem(), max_clocks_mhz(sample.problem()));
  EXPECT_LT(planned.energy_j_total, 0.97 * fastest.energy_j_total);
  EXPECT_LT(planned.time_s, 1.02 * fastest.time_s);
  EXPECT_FALSE(plan.schedule);
}

TEST(EnvPipeOffline, EndsWhereTheLastStageIsTheLightest) {
  const planner::SampleProblem sample(schedule::one_f_one_b_schedule(4, 8),
                                      planner::modelled_profile({0.060, 0.056, 0.058, 0.040}), 80);
  const planner::PolicyPlan plan = EnvPipeOfflinePolicy(kUnitS).plan(sample.problem(), std::nullopt);
  expect_settled(sample, plan);
  const simulator::Timeline planned = replay_clocks(sample.problem(), plan.clocks_mhz);
  const simulator::Timeline fastest = replay_clocks(sample.problem(), max_clocks_mhz(sample.problem()));
  EXPECT_LT(planned.time_s, 1.02 * fastest.time_s);
}

TEST(EnvPipeOffline, EndsWhereHighestClocksDiffer) {
  profile::StageProfile profile(2);
  profile.add(0, OpKind::forward, {1200, 0.060, 20});
  profile.add(0, OpKind::forward, {1000, 0.070, 16});
  profile.add(0, OpKind::backward, {1400, 0.120, 40});
  profile.add(0, OpKind::backward, {1300, 0.125, 38});
  profile.add(1, OpKind::forward, {1400, 0.030, 10});
  profile.add(1, OpKind::backward, {1400, 0.060, 20});
  const planner::SampleProblem sample(schedule::one_f_one_b_schedule(2, 4), std::move(profile), 80);
  expect_settled(sample, EnvPipeOfflinePolicy(kUnitS).plan(sample.problem(), std::nullopt));
}

TEST(EnvPipeOffline, SaysThatItIgnoresADeadline) {
  const planner::SampleProblem sample = planner::four_stages(4);
  const planner::PolicyPlan without = EnvPipeOfflinePolicy(kUnitS).plan(sample.problem(), std::nullopt);
  const planner::PolicyPlan with = EnvPipeOfflinePolicy(kUnitS).plan(sample.problem(), 100.0);
  EXPECT_EQ(with.clocks_mhz, without.clocks_mhz);
  EXPECT_THAT(without.note, Not(HasSubstr("deadline")));
  EXPECT_THAT(with.note, HasSubstr("ignores the deadline"));
}

}  // namespace
}  // namespace lowgear::policies
