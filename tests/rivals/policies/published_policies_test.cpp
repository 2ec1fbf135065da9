#include "rivals/policies/published_policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "planning/api/comparison.h"
#include "planning/api/plan_pipeline.h"
#include "planning/api/sample_pipeline.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/sample_problem.h"

namespace lowgear::policies {

namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(PublishedPolicies, AreListedBetweenLowgearsTwo) {
  EXPECT_THAT(published_policies().names(),
              ElementsAre("max", "zeus-global", "zeus-per-stage", "envpipe", "envpipe-offline", "perseus", "lowgear"));
  for (const std::string& name : published_policies().names()) EXPECT_EQ(published_policies().make(name)->name(), name);
}

/// Stops the second time that it hears of the work: the first time is before it begins.
class Stop : public Progress {
 public:
  struct Stopped {};
  void update(std::string_view, double) override {
    if (++updates_ == 2) throw Stopped{};
  }

 private:
  int updates_ = 0;
};

TEST(LongPolicies, CanBeStopped) {
  const planner::SampleProblem sample = planner::four_stages(256);
  for (const char* name : {"perseus", "envpipe", "envpipe-offline"}) {
    Stop stop;
    planner::PlanningProblem problem = sample.problem();
    problem.progress = &stop;
    EXPECT_THROW((void)published_policies().make(name)->plan(problem, std::nullopt), Stop::Stopped) << name;
  }
}

class EveryPolicy : public testing::TestWithParam<std::string> {
 protected:
  /// Each op gets a clock that it was profiled at; the same problem gets the same plan.
  static void expect_plan(const planner::SampleProblem& sample) {
    const auto policy = published_policies().make(GetParam());
    const planner::PolicyPlan plan = policy->plan(sample.problem(), std::nullopt);
    planner::PlanningProblem problem = sample.problem();
    const schedule::PipelineDag dag = plan.schedule ? build_dag(*plan.schedule) : sample.dag();
    problem.dag = &dag;
    ASSERT_EQ(plan.clocks_mhz.size(), dag.ops.size());
    EXPECT_GT(replay_clocks(problem, plan.clocks_mhz).energy_j_total, 0);
    EXPECT_EQ(policy->plan(sample.problem(), std::nullopt).clocks_mhz, plan.clocks_mhz);
    EXPECT_EQ(plan.note.find('\n'), std::string::npos);
  }
};

TEST_P(EveryPolicy, PlansAnOrdinaryPipeline) { expect_plan(planner::four_stages(8)); }

TEST_P(EveryPolicy, PlansAPipelineOfOneOp) {
  expect_plan({schedule::one_f_one_b_schedule(1, 1), planner::modelled_profile({0.05}), 80});
}

TEST_P(EveryPolicy, PlansWithoutBlockingPower) {
  expect_plan({schedule::one_f_one_b_schedule(2, 3), planner::modelled_profile({0.05, 0.06}), 0});
}

TEST_P(EveryPolicy, PlansWithOneOrTwoOptions) {
  profile::StageProfile profile(2);
  profile.add(0, OpKind::forward, {1410, 0.05, 15});
  profile.add(0, OpKind::backward, {1410, 0.10, 30});
  profile.add(1, OpKind::forward, {1410, 0.05, 15});
  profile.add(1, OpKind::forward, {1000, 0.06, 13});
  profile.add(1, OpKind::backward, {1410, 0.10, 30});
  profile.add(1, OpKind::backward, {1000, 0.12, 26});
  expect_plan({schedule::one_f_one_b_schedule(2, 4), std::move(profile), 80});
}

TEST_P(EveryPolicy, PlansOpsThatNoClockChanges) {
  profile::StageProfile profile(2);
  for (int stage = 0; stage < 2; ++stage) {
    for (int clock = 1410; clock >= 1000; clock -= 15) {
      profile.add(stage, OpKind::forward, {clock, 0.05, 15});
      profile.add(stage, OpKind::backward, {clock, 0.10, 30});
    }
  }
  expect_plan({schedule::one_f_one_b_schedule(2, 4), std::move(profile), 80});
}

TEST_P(EveryPolicy, PlansWhereLowerClocksAreFasterAndSlowerByNoise) {
  profile::StageProfile profile = planner::modelled_profile({0.05, 0.055});
  profile::StageProfile noisy(2);
  for (int stage = 0; stage < 2; ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      for (const profile::Measurement& measurement : profile.measurements(stage, kind)) {
        const double factor = 1 + 0.03 * ((measurement.clock_mhz / 15) % 3 - 1);
        noisy.add(stage, kind, {measurement.clock_mhz, measurement.time_s * factor, measurement.energy_j / factor});
      }
    }
  }
  expect_plan({schedule::one_f_one_b_schedule(2, 5), std::move(noisy), 80});
}

TEST_P(EveryPolicy, NamesAMissingKind) {
  profile::StageProfile profile(2);
  for (int stage = 0; stage < 2; ++stage) profile.add(stage, OpKind::forward, {1410, 0.05, 15});
  const planner::SampleProblem sample(schedule::one_f_one_b_schedule(2, 2), std::move(profile), 80);
  EXPECT_THROW((void)published_policies().make(GetParam())->plan(sample.problem(), std::nullopt), InputError);
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::erase_if(name, [](unsigned char letter) { return std::isalnum(letter) == 0; });
  return name;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryPolicy, testing::ValuesIn(published_policies().names()), test_name);

TEST(PoliciesOfClocks, RunEachWithItsFastestSetting) {
  const planner::SampleProblem sample = planner::four_stages(8);
  profile::StageProfile with_settings(4);
  for (const profile::StageOp& op : sample.problem().profile->ops()) {
    for (profile::Measurement row : op.measurements) {
      row.setting = "fast";
      with_settings.add(op.stage, op.kind, row);
      with_settings.add(op.stage, op.kind, {row.clock_mhz, row.time_s * 1.1, row.energy_j * 0.8, "slow"});
    }
  }
  planner::PlanningProblem problem = sample.problem();
  problem.profile = &with_settings;
  for (const std::string& name : published_policies().names()) {
    if (name == planner::kLowgearPolicy) continue;
    SCOPED_TRACE(name);
    const planner::PolicyPlan plan = published_policies().make(name)->plan(problem, std::nullopt);
    const planner::PolicyPlan without = published_policies().make(name)->plan(sample.problem(), std::nullopt);
    EXPECT_EQ(plan.clocks_mhz, without.clocks_mhz);
    EXPECT_EQ(plan.settings, std::vector<std::string>(plan.clocks_mhz.size(), "fast"));
    EXPECT_THAT(plan.note, HasSubstr("each with its fastest setting"));
    EXPECT_TRUE(without.settings.empty());
  }
}

class PublishedComparison : public ::testing::Test {
 protected:
  [[nodiscard]] api::PolicyComparison compare(const api::ComparisonOptions& options) {
    return compare_policies(pipeline_, planner_, options);
  }

  api::ProfiledPipeline pipeline_ = api::sample_pipeline();
  planner::PipelinePlanner planner_{pipeline_.schedule, pipeline_.profile, pipeline_.blocking_power_w, {}};
};

TEST_F(PublishedComparison, APolicyThatRunsItsOwnOrderIsFollowedByLowgearInThatOrder) {
  api::ComparisonOptions options{.table = published_policies(), .policies = {"envpipe"}};
  EXPECT_FALSE(compare(options).rows[0].own_order) << "within the memory of 1F1B its order is the given one";
  options.table = published_policies({.envpipe = {.extra_activations = {8}}});
  const api::PolicyComparison comparison = compare(options);
  ASSERT_EQ(comparison.rows.size(), 2U);
  EXPECT_TRUE(comparison.rows[0].own_order);
  EXPECT_EQ(comparison.rows[1].label(), "lowgear (time and order of envpipe)");
  api::ComparisonOptions of_problem{.table = published_policies(), .policies = {"envpipe"}};
  of_problem.extra_activations.assign(static_cast<std::size_t>(pipeline_.dag.ranks), 8);
  const api::PolicyComparison by_problem = compare(of_problem);
  ASSERT_EQ(by_problem.rows.size(), 2U);
  EXPECT_EQ(by_problem.rows[0].peak_activations, comparison.rows[0].peak_activations);
}

TEST_F(PublishedComparison, ReplaysLateChangesWhereItIsAskedTo) {
  const api::PolicyComparison comparison =
      compare({.table = published_policies(), .policies = {"max", "perseus"}, .late_s = 0.025});
  EXPECT_EQ(comparison.rows[0].late_time_s, comparison.rows[0].time_s) << "its clocks never change";
  EXPECT_NE(comparison.rows[1].late_energy_j, comparison.rows[1].energy_j);
}

TEST(PlanOfPublishedPolicies, SaysWhatOtherPoliciesWouldDo) {
  const api::PlanResult result = api::plan(
      api::sample_pipeline(), {.request = {.policies = published_policies()}, .deadlines = {.slowdown_pct = 1}});
  std::vector<std::string> names;
  for (const api::ComparisonRow& row : result.policies) names.push_back(row.label());
  for (const std::string& name : published_policies().other_names()) EXPECT_THAT(names, Contains(name));
}

TEST(PlanOfPublishedPolicies, OfAnotherPolicyIsOnePlanWithItsOwnFrontierWhereItHasOne) {
  const api::PlanResult result =
      api::plan(api::sample_pipeline(), {.request = {.policy = "perseus", .policies = published_policies()}});
  ASSERT_EQ(result.plans.size(), 1U);
  EXPECT_EQ(result.shown.policy, "perseus");
  ASSERT_GE(result.policy_frontier.size(), 2U);
  EXPECT_LT(result.policy_frontier.front().time_s, result.policy_frontier.back().time_s);
  EXPECT_TRUE(result.plans.front().lower_bound_j) << "proven by Lowgear's frontier";
}

TEST(PlanOfPublishedPolicies, IsForTheOrderThatThePolicyRuns) {
  const api::ProfiledPipeline given = api::sample_pipeline();
  const PolicySettings more_memory{.envpipe = {.extra_activations = {100}}};
  const api::PlanResult result =
      api::plan(given, {.request = {.policy = "envpipe", .policies = published_policies(more_memory)}});
  EXPECT_NE(result.pipeline.schedule.ranks, given.schedule.ranks);
  EXPECT_NO_THROW((void)clocks_for(result.shown, result.pipeline.dag));
  EXPECT_THAT(result.warnings, Contains(HasSubstr("envpipe runs its own order")));
}

TEST(PlanOfPublishedPolicies, HasTheRowsOfAComparisonForTheirTimes) {
  const api::ProfiledPipeline pipeline = api::sample_pipeline();
  planner::PipelinePlanner planner(pipeline.schedule, pipeline.profile, pipeline.blocking_power_w, {});
  const api::PolicyComparison compared =
      compare_policies(pipeline, planner, {.table = published_policies(), .policies = published_policies().names()});
  int found = 0;
  for (const api::ComparisonRow& other : compared.rows) {
    const auto ours =
        std::ranges::find(compared.rows, "lowgear (time of " + other.policy + ")", &api::ComparisonRow::label);
    if (ours == compared.rows.end()) continue;
    const api::PlanResult alone = api::plan(api::sample_pipeline(), {.deadlines = {.deadline_s = other.time_s}});
    EXPECT_EQ(alone.shown.energy_j, ours->energy_j) << other.policy;
    ++found;
  }
  EXPECT_GT(found, 0);
}

}  // namespace

}  // namespace lowgear::policies
