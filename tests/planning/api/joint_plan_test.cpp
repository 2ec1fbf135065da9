#include "planning/api/joint_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/core/error_of.h"
#include "planning/api/plan_pipeline.h"
#include "planning/api/sample_pipeline.h"
#include "planning/joint/orders/sample_orders.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/planner/policies/policy.h"
#include "planning/planner/progress_log.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/replay.h"

namespace lowgear::api {
namespace {

using ::testing::HasSubstr;

struct Received {
  std::vector<plan::Plan> plans;
  JointPlanResult result;
};

Received planned(const joint::JointProblem& problem, const PlanOptions& options) {
  Received received;
  const PlanReceiver receive = [&](const ProfiledPipeline& pipeline, int number, const plan::Plan& plan) {
    EXPECT_EQ(number, static_cast<int>(received.plans.size()));
    const auto costs = simulator::costs_at_clocks(pipeline.dag, pipeline.profile, clocks_for(plan, pipeline.dag));
    const simulator::Timeline timeline = simulator::replay(pipeline.dag, costs, pipeline.blocking_power_w);
    EXPECT_NEAR(timeline.energy_j_total, plan.energy_j, 1e-9 * plan.energy_j);
    EXPECT_LE(timeline.time_s, plan.deadline_s * (1 + 1e-9));
    received.plans.push_back(plan);
  };
  received.result = plan_jointly(problem, options, receive);
  return received;
}

TEST(PlanJointly, PlansReplayToTheirFiguresInOrdersThatFit) {
  const joint::JointProblem problem = joint::sample_orders({0.050, 0.056, 0.052}, 5, {.microbatches = {4}});
  const Received received = planned(problem, {.deadlines = {.plans = 6}});
  const JointPlanResult& result = received.result;
  ASSERT_EQ(result.plans.size(), 6);
  ASSERT_EQ(received.plans.size(), 6);
  for (std::size_t i = 0; i < 6; ++i) {
    const auto order = static_cast<std::size_t>(result.plans[i].order.value());
    ASSERT_LT(order, result.orders.size());
    EXPECT_EQ(received.plans[i].schedule, result.orders[order].name);
    EXPECT_TRUE(problem.fits(result.orders[order].pipeline.schedule));
  }
}

TEST(PlanJointly, EndsAtWhicheverReportItIsStopped) {
  const joint::JointProblem problem = joint::sample_orders({0.050, 0.056, 0.052}, 6, {.microbatches = {4}});
  const PlanOptions options{.deadlines = {.plans = 4}};
  planner::StopsAfter counted(0);
  (void)plan_jointly(problem, options, {}, &counted);
  const int all = counted.reports();
  for (const int last : {1, all / 4, all / 2, all - 1, all}) {
    planner::StopsAfter stop(last);
    EXPECT_THROW((void)plan_jointly(problem, options, {}, &stop), Stopped) << last << " of " << all;
    EXPECT_EQ(stop.reports(), last);
  }
}

TEST(PlanJointly, SaysThatAPlanIsFasterThanFullClocksInItsOrder) {
  joint::JointProblem problem = joint::sample_orders({0.050, 0.056}, 8);
  EXPECT_THAT(planned(problem, {.deadlines = {.plans = 2}}).result.findings, ::testing::IsEmpty())
      << "orders may be faster";
  problem.profile = with_faster_second_clock(problem.profile);
  const JointPlanResult result = planned(problem, {.deadlines = {.plans = 2}}).result;
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_THAT(result.warnings, ::testing::Contains(result.findings.front()));
}

TEST(PlanJointly, SaysThatADeadlineIsLaterThanTheTimeOfLeastEnergy) {
  const joint::JointProblem problem = joint::sample_orders({0.050, 0.056}, 8);
  EXPECT_THAT(planned(problem, {.deadlines = {.deadline_s = 100}}).result.findings,
              ::testing::ElementsAre(::testing::HasSubstr("later than T*")));
}

TEST(PlanJointly, OfSeveralPlansOneTakesTheReferencesTime) {
  const Received received = planned(joint::sample_orders({0.050, 0.056}, 16), {.deadlines = {.plans = 5}});
  const JointPlanResult& result = received.result;
  const auto same = [&](const PlanFigures& plan) { return plan.deadline_s == result.run.baseline.time_s; };
  EXPECT_EQ(std::ranges::count_if(result.plans, same), 1);
  EXPECT_LT(result.shown.energy_j, result.run.baseline.energy_j);
  EXPECT_LE(result.shown.time_s, result.run.baseline.time_s * (1 + 1e-9));
}

// T_min of 1F1B, whose times are rounded up, is some picoseconds later than its full clocks.
TEST(PlanJointly, NeedsAtMostWhatOneFOneBNeedsInTheTimeOfItsFullClocks) {
  std::mt19937 random(5);
  for (int i = 0; i < 6; ++i) {
    SCOPED_TRACE(i);
    std::vector<double> forward_s(4);
    for (double& stage_s : forward_s) stage_s = std::uniform_real_distribution<double>(0.04, 0.06)(random);
    const joint::JointProblem problem = joint::sample_orders(forward_s, 9 + i, {.microbatches = {4 + i % 3}});
    const JointPlanResult joint = planned(problem, {.deadlines = {.plans = 4}}).result;
    planner::PipelinePlanner one_order(schedule::one_f_one_b_schedule(4, problem.microbatches), problem.profile,
                                       problem.blocking_power_w, {});
    EXPECT_LE(joint.shown.energy_j, one_order.plan(joint.run.baseline.time_s).energy_j * (1 + 1e-3));
    const double printed_s = std::floor(joint.run.baseline.time_s * 1e5) / 1e5;
    const JointPlanResult as_printed = planned(problem, {.deadlines = {.deadline_s = printed_s}}).result;
    EXPECT_EQ(as_printed.shown.energy_j, joint.shown.energy_j);
    EXPECT_EQ(as_printed.shown.deadline_s, joint.run.baseline.time_s);
  }
}

TEST(PlanJointly, PlansADeadlineInTheSameWayByItselfAndAmongOthers) {
  std::mt19937 random(11);
  for (int i = 0; i < 6; ++i) {
    SCOPED_TRACE(i);
    const joint::JointProblem problem = joint::random_orders(random);
    const Received several = planned(problem, {.deadlines = {.plans = 4}});
    for (const plan::Plan& one : several.plans) {
      const Received alone = planned(problem, {.deadlines = {.deadline_s = one.deadline_s}});
      EXPECT_EQ(alone.plans.front().schedule, one.schedule) << one.deadline_s << " s";
      EXPECT_EQ(alone.plans.front().energy_j, one.energy_j) << one.deadline_s << " s";
      EXPECT_EQ(alone.plans.front().time_s, one.time_s);
    }
  }
}

TEST(PlanJointly, NoPolicyLiesBelowWhatItOffersForTheSameMemory) {
  for (const joint::MemoryLimit& memory : {joint::MemoryLimit{}, joint::MemoryLimit{{4}}}) {
    const joint::JointProblem problem = joint::sample_orders({0.050, 0.056, 0.052}, 4, memory);
    const Received received = planned(problem, {.deadlines = {.plans = 2}});
    ASSERT_FALSE(received.result.policies.empty());
    for (const ComparisonRow& policy : received.result.policies) {
      const Received at_its_time = planned(problem, {.deadlines = {.deadline_s = policy.time_s}});
      EXPECT_LE(at_its_time.plans.front().energy_j, policy.energy_j * (1 + 1e-9)) << policy.label();
    }
  }
}

TEST(PlanJointly, RunFilesAreReadBack) {
  const PlanOptions options{.deadlines = {.plans = 2}};
  const Received received = planned(joint::sample_orders({0.050, 0.056}, 4), options);
  const RunFile run = read_run(write_run(run_file_of(received.result, options)), "run.json");
  ASSERT_TRUE(run.joint.has_value());
  EXPECT_EQ(run.schedule, "auto");
  EXPECT_EQ(run.joint->memory_limit, "1f1b");
  ASSERT_EQ(run.joint->orders.size(), received.result.orders.size());
  EXPECT_EQ(run.joint->orders.front().name, received.result.orders.front().name);
  EXPECT_EQ(run.joint->baseline.time_s, received.result.run.baseline.time_s);
}

TEST(PlanJointly, MovesLayersAndSaysWhatTheGivenPartitionWouldUse) {
  const joint::JointProblem problem = joint::sample_orders({0.040, 0.040, 0.080}, 6);
  const FreeLayers free{layer_profile_of(problem.profile, {4, 4, 4}), {4, 4, 4}};
  const PlanOptions options{.deadlines = {.plans = 4}};
  const JointPlanResult result = plan_jointly(problem, free, options);
  ASSERT_TRUE(result.run.partition.has_value());
  const PartitionRun& partition = *result.run.partition;
  EXPECT_EQ(partition.given, free.given);
  EXPECT_LT(partition.chosen[2], 4);
  EXPECT_EQ(result.profile, stage_profile_of(free.layers, partition.chosen));
  EXPECT_EQ(result.run.baseline.time_s, plan_jointly(problem, options).run.baseline.time_s);
  if (partition.given_plan) {
    EXPECT_LT(result.shown.energy_j, partition.given_plan->energy_j);
  }

  const RunFile run = read_run(write_run(run_file_of(result, options)), "run.json");
  ASSERT_TRUE(run.joint->partition.has_value());
  EXPECT_EQ(run.joint->partition->chosen, partition.chosen);
  EXPECT_EQ(run.joint->partition->tried, partition.tried);
  EXPECT_EQ(run.joint->partition->given_plan.has_value(), partition.given_plan.has_value());
  EXPECT_THAT(describe(partition, {result.shown.time_s, result.shown.energy_j}), HasSubstr("not proven best"));
}

TEST(PlanJointly, RefusesOtherPoliciesAndImpossibleDeadlines) {
  const joint::JointProblem problem = joint::sample_orders({0.050, 0.056}, 4);
  EXPECT_THAT(error_of([&] { (void)plan_jointly(problem, {.request = {.policy = "perseus"}}); }), HasSubstr("perseus"));
  EXPECT_THAT(error_of([&] { (void)plan_jointly(problem, {.deadlines = {.deadline_s = 1e-3}}); }), HasSubstr("T_min"));
}

}  // namespace
}  // namespace lowgear::api
