#include "planning/api/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string_view>

#include "base/core/error.h"
#include "planning/api/sample_pipeline.h"

namespace lowgear::api {
namespace {

class Comparison : public ::testing::Test {
 protected:
  [[nodiscard]] PolicyComparison compare(const ComparisonOptions& options) {
    return compare_policies(pipeline_, planner_, options);
  }

  ProfiledPipeline pipeline_ = sample_pipeline();
  planner::PipelinePlanner planner_{pipeline_.schedule, pipeline_.profile, pipeline_.blocking_power_w, {}};
};

TEST_F(Comparison, ReplaysEveryPolicyAndLowgearForTheirTimes) {
  const PolicyComparison comparison = compare({.policies = {"max", "lowgear"}});
  EXPECT_EQ(comparison.baseline.policy, "max");
  ASSERT_GE(comparison.rows.size(), 2U);
  EXPECT_EQ(comparison.rows[0].label(), "max");
  EXPECT_EQ(comparison.rows[1].label(), "lowgear (T_min)");
  EXPECT_EQ(saving_pct(comparison.rows[0], comparison.baseline), 0);
  EXPECT_GT(saving_pct(comparison.rows[1], comparison.baseline), 0);
  for (const ComparisonRow& row : comparison.rows) {
    ASSERT_TRUE(row.lower_bound_j) << row.label();
    EXPECT_GE(row.energy_j, *row.lower_bound_j * (1 - 1e-9)) << row.label();
    EXPECT_EQ(row.late_time_s, std::nullopt) << row.label();
  }
}

/// Every op at a clock so low that it needs more energy than at some higher one.
class LowestClockPolicy final : public planner::Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "lowest"; }
  [[nodiscard]] planner::PolicyPlan plan(const planner::PlanningProblem& problem,
                                         std::optional<double> /*deadline_s*/) const override {
    planner::PolicyPlan plan;
    for (const schedule::ComputeOp& op : problem.dag->ops) {
      plan.clocks_mhz.push_back(problem.profile->measurements(op.stage, op.kind).back().clock_mhz);
    }
    return plan;
  }
};

TEST_F(Comparison, SaysWhyAPlanEndsBeforeTheTimeOfAnotherPolicy) {
  ComparisonOptions options{.policies = {"max", "lowest", "lowgear"}};
  options.table = planner::PolicyTable({{"lowest", [] { return std::make_unique<LowestClockPolicy>(); }}});
  pipeline_.profile = planner::modelled_profile({0.050, 0.056, 0.052}, 210);
  planner::PipelinePlanner planner{pipeline_.schedule, pipeline_.profile, pipeline_.blocking_power_w, {}};
  const PolicyComparison comparison = compare_policies(pipeline_, planner, options);
  ASSERT_EQ(comparison.rows.back().label(), "lowgear (time of lowest)");
  ASSERT_LT(comparison.rows.back().time_s, comparison.rows[1].time_s);
  EXPECT_THAT(comparison.rows.back().note, ::testing::HasSubstr("saves no more energy"));
  EXPECT_THAT(comparison.rows[2].note, ::testing::Not(::testing::HasSubstr("saves no more energy")));
}

TEST_F(Comparison, SaysThatAPlanIsFasterThanFullClocks) {
  EXPECT_TRUE(compare({.policies = {"max", "lowgear"}}).findings.empty());
  pipeline_.profile = with_faster_second_clock(pipeline_.profile);
  planner::PipelinePlanner planner{pipeline_.schedule, pipeline_.profile, pipeline_.blocking_power_w, {}};
  const PolicyComparison comparison = compare_policies(pipeline_, planner, {.policies = {"max", "lowgear"}});
  ASSERT_EQ(comparison.findings.size(), 1U);
  EXPECT_THAT(comparison.findings.front(), ::testing::StartsWith("policy lowgear: a plan takes"));
}

TEST_F(Comparison, TimesPlansByTheCallersClockOnly) {
  for (const ComparisonRow& row : compare({.policies = {"max", "lowgear"}}).rows) {
    EXPECT_EQ(row.plan_time_s, std::nullopt);
  }
  double now_s = 0;
  const PolicyComparison timed =
      compare({.policies = {"max", "lowgear"}, .now_s = [&now_s] { return now_s += 1; }, .frontier_time_s = 10});
  EXPECT_EQ(timed.rows[0].plan_time_s, 1);
  EXPECT_EQ(timed.rows[1].plan_time_s, 11) << "its frontier was solved before";
}

TEST_F(Comparison, SkipsAPolicyThatIsNotThereButNotTheBaseline) {
  const PolicyComparison comparison = compare({.policies = {"magic", "max"}});
  EXPECT_THAT(comparison.skipped, testing::ElementsAre(testing::HasSubstr("magic: no policy is called")));
  EXPECT_EQ(comparison.rows.size(), 1U);
  EXPECT_THROW((void)compare({.policies = {"max"}, .baseline = "magic"}), InputError);
}

}  // namespace
}  // namespace lowgear::api
