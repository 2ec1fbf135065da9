#include "planning/planner/policies/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/sample_problem.h"

namespace lowgear::planner {

namespace {

using testing::HasSubstr;
using testing::IsSupersetOf;

TEST(PolicyRegistry, KnowsThePublishedPolicies) {
  EXPECT_THAT(policy_names(),
              IsSupersetOf({"max", "zeus-global", "zeus-per-stage", "envpipe", "envpipe-offline", "perseus"}));
  for (const std::string& name : policy_names()) EXPECT_EQ(make_policy(name)->name(), name);
}

TEST(PolicyRegistry, NamesThePoliciesThatExist) {
  try {
    (void)make_policy("perseos");
    FAIL() << "there is no such policy";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("perseos"));
    EXPECT_THAT(error.what(), HasSubstr("perseus"));
  }
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
  const SampleProblem sample = four_stages(256);
  for (const char* name : {"perseus", "envpipe", "envpipe-offline"}) {
    Stop stop;
    PlanningProblem problem = sample.problem();
    problem.progress = &stop;
    EXPECT_THROW((void)make_policy(name)->plan(problem, std::nullopt), Stop::Stopped) << name;
  }
}

class EveryPolicy : public testing::TestWithParam<std::string> {
 protected:
  /// Each op gets a clock that it was profiled at; the same problem gets the same plan.
  static void expect_plan(const SampleProblem& sample) {
    const auto policy = make_policy(GetParam());
    const PolicyPlan plan = policy->plan(sample.problem(), std::nullopt);
    PlanningProblem problem = sample.problem();
    const schedule::PipelineDag dag = plan.schedule ? build_dag(*plan.schedule) : sample.dag();
    problem.dag = &dag;
    ASSERT_EQ(plan.clocks_mhz.size(), dag.ops.size());
    EXPECT_GT(replay_clocks(problem, plan.clocks_mhz).energy_j_total, 0);
    EXPECT_EQ(policy->plan(sample.problem(), std::nullopt).clocks_mhz, plan.clocks_mhz);
    EXPECT_EQ(plan.note.find('\n'), std::string::npos);
  }
};

TEST_P(EveryPolicy, PlansAnOrdinaryPipeline) { expect_plan(four_stages(8)); }

TEST_P(EveryPolicy, PlansAPipelineOfOneOp) {
  expect_plan({schedule::one_f_one_b_schedule(1, 1), modelled_profile({0.05}), 80});
}

TEST_P(EveryPolicy, PlansWithoutBlockingPower) {
  expect_plan({schedule::one_f_one_b_schedule(2, 3), modelled_profile({0.05, 0.06}), 0});
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
  profile::StageProfile profile = modelled_profile({0.05, 0.055});
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
  const SampleProblem sample(schedule::one_f_one_b_schedule(2, 2), std::move(profile), 80);
  EXPECT_THROW((void)make_policy(GetParam())->plan(sample.problem(), std::nullopt), InputError);
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::erase_if(name, [](unsigned char letter) { return std::isalnum(letter) == 0; });
  return name;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryPolicy, testing::ValuesIn(policy_names()), test_name);

TEST(PoliciesOfClocks, RunEachWithItsFastestSetting) {
  const SampleProblem sample = four_stages(8);
  profile::StageProfile with_settings(4);
  for (const profile::StageOp& op : sample.problem().profile->ops()) {
    for (profile::Measurement row : op.measurements) {
      row.setting = "fast";
      with_settings.add(op.stage, op.kind, row);
      with_settings.add(op.stage, op.kind, {row.clock_mhz, row.time_s * 1.1, row.energy_j * 0.8, "slow"});
    }
  }
  PlanningProblem problem = sample.problem();
  problem.profile = &with_settings;
  for (const std::string& name : policy_names()) {
    if (name == kLowgearPolicy) continue;
    SCOPED_TRACE(name);
    const PolicyPlan plan = make_policy(name)->plan(problem, std::nullopt);
    const PolicyPlan without = make_policy(name)->plan(sample.problem(), std::nullopt);
    EXPECT_EQ(plan.clocks_mhz, without.clocks_mhz);
    EXPECT_EQ(plan.settings, std::vector<std::string>(plan.clocks_mhz.size(), "fast"));
    EXPECT_THAT(plan.note, HasSubstr("each with its fastest setting"));
    EXPECT_TRUE(without.settings.empty());
  }
}

using testing::HasSubstr;

class LowgearPolicyTest : public testing::Test {
 protected:
  [[nodiscard]] PolicyPlan plan(std::optional<double> deadline_s) const {
    return make_policy("lowgear")->plan(sample_.problem(), deadline_s);
  }
  [[nodiscard]] simulator::Timeline replayed(const PolicyPlan& plan) const {
    return replay_clocks(sample_.problem(), plan.clocks_mhz);
  }

  SampleProblem sample_ = four_stages(8);
  double fastest_s_ = replay_clocks(sample_.problem(), max_clocks_mhz(sample_.problem())).time_s;
};

TEST_F(LowgearPolicyTest, LosesNoTimeWithoutADeadline) {
  const simulator::Timeline timeline = replayed(plan(std::nullopt));
  EXPECT_LE(timeline.time_s, fastest_s_ * (1 + 1e-12));
  EXPECT_LT(timeline.energy_j_total,
            replay_clocks(sample_.problem(), max_clocks_mhz(sample_.problem())).energy_j_total);
}

TEST_F(LowgearPolicyTest, UsesLessTheLaterTheDeadline) {
  double before_j = replayed(plan(std::nullopt)).energy_j_total;
  for (const double slowdown : {1.03, 1.1, 1.2}) {
    const simulator::Timeline timeline = replayed(plan(slowdown * fastest_s_));
    EXPECT_LE(timeline.time_s, slowdown * fastest_s_);
    EXPECT_LT(timeline.energy_j_total, before_j);
    before_j = timeline.energy_j_total;
  }
}

TEST_F(LowgearPolicyTest, BelievesWhatAReplayShows) {
  const PolicyPlan found = plan(1.1 * fastest_s_);
  const simulator::Timeline timeline = replayed(found);
  EXPECT_FALSE(found.schedule.has_value()) << "runs the schedule that it was given";
  EXPECT_DOUBLE_EQ(found.own_time_s.value(), timeline.time_s);
  EXPECT_DOUBLE_EQ(found.own_energy_j.value(), timeline.energy_j_total);
  EXPECT_THAT(found.note, HasSubstr(" % above the least energy possible"));
}

TEST_F(LowgearPolicyTest, RefusesDeadlinesThatCannotBeKept) { EXPECT_THROW((void)plan(0.9 * fastest_s_), InputError); }

TEST_F(LowgearPolicyTest, PassesItsOptionsOn) {
  PlannerOptions options;
  options.granularity = PlanGranularity::per_stage_kind;
  const PolicyPlan coarse = LowgearPolicy(options).plan(sample_.problem(), 1.1 * fastest_s_);
  for (std::size_t a = 0; a < coarse.clocks_mhz.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const schedule::ComputeOp& op = sample_.dag().ops[a];
      const schedule::ComputeOp& other = sample_.dag().ops[b];
      const bool is_shared = op.stage == other.stage && op.kind == other.kind;
      EXPECT_TRUE(!is_shared || coarse.clocks_mhz[a] == coarse.clocks_mhz[b]);
    }
  }
}

using testing::HasSubstr;

TEST(MaxClock, RunsEverythingAtItsHighestClock) {
  profile::StageProfile profile(2);
  profile.add(0, OpKind::forward, {1410, 0.05, 15});
  profile.add(0, OpKind::backward, {1395, 0.10, 30});
  profile.add(1, OpKind::forward, {1200, 0.05, 15});
  profile.add(1, OpKind::forward, {1000, 0.06, 14});
  profile.add(1, OpKind::backward, {1200, 0.10, 30});
  const SampleProblem sample(schedule::one_f_one_b_schedule(2, 1), std::move(profile), 80);
  EXPECT_THAT(MaxClockPolicy().plan(sample.problem(), std::nullopt).clocks_mhz,
              testing::ElementsAre(1410, 1395, 1200, 1200));
  EXPECT_THAT(MaxClockPolicy().plan(sample.problem(), 1.0).note, HasSubstr("no deadline"));
}

}  // namespace

}  // namespace lowgear::planner
