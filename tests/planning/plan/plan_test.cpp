#include "planning/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "planning/plan/pipelines.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/generators.h"

namespace lowgear::plan {

namespace {

using ::testing::HasSubstr;

std::vector<PlannedOp> ops_with_clocks(const std::vector<int>& clocks_mhz) {
  std::vector<PlannedOp> ops;
  for (const int clock_mhz : clocks_mhz) {
    ops.push_back({.clock_mhz = clock_mhz});
  }
  return ops;
}

/// A plan for the graph whose i-th op runs at 1000 + i MHz.
Plan plan_for(const schedule::PipelineDag& dag) {
  Plan plan;
  plan.microbatches = dag.microbatches;
  plan.ranks.resize(static_cast<std::size_t>(dag.ranks));
  for (const schedule::ComputeOp& op : dag.ops) {
    const int index = static_cast<int>(&op - dag.ops.data());
    plan.ranks[static_cast<std::size_t>(op.rank)].push_back(
        {.stage = op.stage, .kind = op.kind, .microbatch = op.microbatch, .clock_mhz = 1000 + index});
  }
  return plan;
}

std::string error_of(const Plan& plan, const schedule::PipelineDag& dag) {
  return lowgear::error_of([&] { (void)clocks_for(plan, dag); });
}

TEST(Plan, GapIsRelativeToTheBound) {
  Plan plan;
  plan.energy_j = 101;
  EXPECT_FALSE(plan.gap_pct().has_value());
  plan.lower_bound_j = 100;
  EXPECT_DOUBLE_EQ(plan.gap_pct().value(), 1.0);
  plan.energy_j = 100 - 5e-9;  // rounding
  EXPECT_EQ(plan.gap_pct().value(), 0);
}

TEST(Plan, HasTheSameClocksWhereEveryOpHas) {
  Plan one;
  one.ranks = {ops_with_clocks({900, 1200}), ops_with_clocks({900})};
  Plan other = one;
  other.deadline_s = 2;
  other.ranks[0][1].start_s = 0.5;
  EXPECT_TRUE(has_same_clocks(one, other)) << "whatever the deadline";
  other.ranks[1][0].clock_mhz = 1000;
  EXPECT_FALSE(has_same_clocks(one, other));
  other = one;
  other.ranks[0][0].setting = "pl:300";
  EXPECT_FALSE(has_same_clocks(one, other));
  other = one;
  std::swap(other.ranks[0], other.ranks[1]);
  EXPECT_FALSE(has_same_clocks(one, other));
  EXPECT_FALSE(has_same_clocks(one, Plan()));
}

TEST(CountSwitches, CountsTheStepToTheNextIteration) {
  EXPECT_EQ(count_switches({}), 0);
  EXPECT_EQ(count_switches({{}}), 0);
  EXPECT_EQ(count_switches({ops_with_clocks({900})}), 0);
  EXPECT_EQ(count_switches({ops_with_clocks({900, 900, 900})}), 0);
  EXPECT_EQ(count_switches({ops_with_clocks({900, 1200})}), 2);
  EXPECT_EQ(count_switches({ops_with_clocks({900, 1200, 1200, 900})}), 2);
  EXPECT_EQ(count_switches({ops_with_clocks({900, 1200, 1000})}), 3);
}

TEST(CountSwitches, AddsUpRanks) {
  EXPECT_EQ(count_switches({ops_with_clocks({900, 1200}), ops_with_clocks({900, 900}), ops_with_clocks({1, 2, 3})}), 5);
}

TEST(ClocksForPlan, AreInTheOrderOfTheGraph) {
  const schedule::PipelineDag dag = pipeline(2, 2);
  EXPECT_THAT(clocks_for(plan_for(dag), dag), testing::ElementsAre(1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007));
}

TEST(ClocksForPlan, NamesTheFirstOpThatDiffers) {
  const schedule::PipelineDag dag = pipeline(2, 2);
  Plan plan = plan_for(dag);
  std::swap(plan.ranks[1][1], plan.ranks[1][2]);
  const std::string error = error_of(plan, dag);
  EXPECT_THAT(error, HasSubstr("rank 1, op 1 is forward of stage 1, microbatch 1"));
  EXPECT_THAT(error, HasSubstr("the schedule runs backward of stage 1, microbatch 0"));
}

TEST(ClocksForPlan, RefusesAnotherStageOrMicrobatch) {
  const schedule::PipelineDag dag = pipeline(2, 2);
  Plan plan = plan_for(dag);
  plan.ranks[0][0].stage = 1;
  EXPECT_THAT(error_of(plan, dag), HasSubstr("rank 0, op 0"));
  plan = plan_for(dag);
  plan.ranks[0][3].microbatch = 0;
  EXPECT_THAT(error_of(plan, dag), HasSubstr("rank 0, op 3"));
}

TEST(ClocksForPlan, RefusesTooFewAndTooManyOps) {
  const schedule::PipelineDag dag = pipeline(2, 2);
  Plan plan = plan_for(dag);
  plan.ranks[1].pop_back();
  EXPECT_THAT(error_of(plan, dag), HasSubstr("rank 1 has 3 ops, but the schedule runs 4"));
  plan = plan_for(dag);
  plan.ranks[0].push_back(plan.ranks[0].back());
  EXPECT_THAT(error_of(plan, dag), HasSubstr("rank 0 has 5 ops, but the schedule runs 4"));
}

TEST(ClocksForPlan, RefusesAnotherNumberOfRanks) {
  EXPECT_THAT(error_of(plan_for(pipeline(2, 2)), pipeline(3, 2)), HasSubstr("2 ranks, but the schedule has 3"));
}

Plan plan_with(const std::vector<std::string>& settings) {
  Plan plan;
  plan.ranks.emplace_back();
  for (const std::string& setting : settings) {
    PlannedOp op;
    op.setting = setting;
    plan.ranks.back().push_back(op);
  }
  return plan;
}

TEST(PowerLimitSetting, IsReadFromItsName) {
  EXPECT_EQ(power_limit_w("pl:300"), 300);
  EXPECT_EQ(power_limit_w("pl:10000"), 10'000);
  for (const char* other :
       {"", "pl:", "pl:0", "pl:-5", "pl:10001", "pl:300.5", "pl:300W", "sm12", "sm12;pl:300", "PL:300"}) {
    EXPECT_EQ(power_limit_w(other), std::nullopt) << other;
  }
}

TEST(PowerLimitSetting, IsTheOnlyOneThatPasses) {
  EXPECT_NO_THROW(refuse_settings_but_power_limits(plan_with({"", "pl:300", "pl:250"}), "it"));
  EXPECT_THROW(refuse_settings_but_power_limits(plan_with({"pl:300", "sm12"}), "it"), InputError);
}

TEST(UniformPlan, HasEveryComputationInOrderAtOneClock) {
  const schedule::Schedule schedule = schedule::one_f_one_b_schedule(2, 3);
  const Plan plan = uniform_plan(schedule, 1410, "profile");
  EXPECT_EQ(plan.policy, "profile");
  EXPECT_EQ(plan.schedule, "1f1b");
  EXPECT_EQ(plan.microbatches, 3);
  ASSERT_EQ(plan.ranks.size(), 2U);
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    ASSERT_EQ(plan.ranks[rank].size(), schedule.ranks[rank].size());
    for (std::size_t i = 0; i < plan.ranks[rank].size(); ++i) {
      const PlannedOp& op = plan.ranks[rank][i];
      EXPECT_EQ(op.clock_mhz, 1410);
      EXPECT_EQ((schedule::Action{schedule::ActionKind::compute, op.kind, op.stage, op.microbatch}),
                schedule.ranks[rank][i]);
    }
  }
  EXPECT_EQ(count_switches(plan.ranks), 0);
}

TEST(UniformPlan, LeavesMessagesOut) {
  const schedule::Schedule schedule = schedule::one_f_one_b_schedule(2, 3);
  EXPECT_EQ(uniform_plan(with_communication(schedule), 900, "profile").ranks[0].size(), schedule.ranks[0].size());
}

using testing::ElementsAre;
using testing::IsEmpty;

TEST(PlanSampling, ReadsWhatTheHelpSays) {
  EXPECT_EQ(read_plan_sampling("all").every, 1);
  EXPECT_EQ(read_plan_sampling("20").count, 20);
  EXPECT_EQ(read_plan_sampling("every:50").every, 50);
  EXPECT_FALSE(read_plan_sampling("every:50").count);
  for (const char* wrong : {"", "All", "0", "-3", "2.5", "every", "every:", "every:0", "every:x", "99999999999"}) {
    EXPECT_THROW((void)read_plan_sampling(wrong), InputError) << wrong;
  }
}

TEST(PlanSampling, TakesPlacesByDistanceAndByCount) {
  EXPECT_THAT(sampled_places(7, read_plan_sampling("every:3")), ElementsAre(0, 3, 6));
  EXPECT_THAT(sampled_places(8, read_plan_sampling("every:3")), ElementsAre(0, 3, 6, 7));
  EXPECT_THAT(sampled_places(9, read_plan_sampling("3")), ElementsAre(0, 4, 8));
  EXPECT_THAT(sampled_places(9, read_plan_sampling("1")), ElementsAre(8));
  EXPECT_THAT(sampled_places(1, read_plan_sampling("every:3")), ElementsAre(0));
  EXPECT_THAT(sampled_places(0, read_plan_sampling("all")), IsEmpty());
}

TEST(PlanSampling, PlacesRiseAndEndWithTheLast) {
  for (std::size_t total = 1; total < 40; ++total) {
    for (int number = 1; number < 45; ++number) {
      const auto by_count = sampled_places(total, {.count = number});
      EXPECT_EQ(by_count.size(), std::min(total, static_cast<std::size_t>(number)));
      for (const auto& places : {by_count, sampled_places(total, {.every = number})}) {
        EXPECT_EQ(std::ranges::adjacent_find(places, std::greater_equal<>{}), places.end());
        EXPECT_EQ(places.back(), total - 1);
      }
    }
  }
}

}  // namespace

}  // namespace lowgear::plan
