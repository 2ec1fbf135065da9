#include "planning/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"
#include "planning/plan/pipelines.h"

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

}  // namespace
}  // namespace lowgear::plan
