#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planning/plan/plan_json.h"
#include "server/job/job_documents.h"
#include "server/simulated_job.h"

namespace lowgear::server {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr PowerCap kKept{.watts = 200};
constexpr PowerCap kBelowAnyPlan{.watts = 5};

class JobPlanningTest : public testing::Test {
 protected:
  void train_until_running() {
    training.train();
    training.run(5);
  }
  void cap(const std::optional<PowerCap>& limit) {
    (void)training.job().set(limit, training.now_s());
    training.settle();
  }
  /// Plans that have been asked for are made.
  void end_planning() {
    training.plans_wait = false;
    training.settle();
  }
  [[nodiscard]] std::string reason() { return summary_json(training.record())["reason"].get<std::string>(); }
  /// What a unit of the plan for training draws at most.
  [[nodiscard]] double peak_w() {
    const plan::Plan plan = plan::read_plan(timeline_json(training.record())["plan"].dump(), "plan");
    double peak_w = 0;
    for (const auto& ops : plan.ranks) {
      for (const plan::PlannedOp& op : ops) {
        const profile::Measurement& row = training.truth().at_clock(op.stage, op.kind, op.clock_mhz);
        peak_w = std::max(peak_w, row.energy_j / row.time_s);
      }
    }
    return peak_w;
  }

  /// Clocks of the newest plan.
  [[nodiscard]] std::set<int> clocks_mhz() {
    const Json newest = Json::parse(*training.job().plan_after(0, 0, training.now_s()));
    std::set<int> clocks;
    for (const Json& stage : newest["plan"]["stages"]) {
      for (const Json& op : stage["ops"]) clocks.insert(op["mhz"].get<int>());
    }
    return clocks;
  }

  SimulatedJob training{small_job(2)};
};

std::string planned_by(const SimulatedJob& training) { return training.record().plans.newest()->plan_of(0).policy; }

TEST(JobPolicies, AreTheServersUnlessTheJobStatesOne) {
  using enum protocol::JobPolicy;
  for (const protocol::JobPolicy servers : {lowgear, perseus, envpipe}) {
    SimulatedJob silent(small_job(2), "j-1", servers);
    silent.train();
    EXPECT_EQ(planned_by(silent), name(servers));
    EXPECT_EQ(summary_json(silent.record())["policy"], name(servers));
    for (const protocol::JobPolicy own : {lowgear, perseus}) {
      protocol::JobSpec spec = small_job(2);
      spec.policy = own;
      SimulatedJob stating(spec, "j-2", servers);
      stating.train();
      EXPECT_EQ(planned_by(stating), name(own));
    }
  }
}

TEST(JobPolicies, LastForTheLifeOfAJob) {
  SimulatedJob training(small_job(2), "j-1", protocol::JobPolicy::perseus);
  training.train();
  training.restart_server();  // which restores jobs without looking at its configuration
  EXPECT_EQ(training.record().policy, protocol::JobPolicy::perseus);
  (void)training.job().set(SlowdownTarget{10, 20}, training.now_s());
  training.settle();
  training.run(5);
  EXPECT_EQ(planned_by(training), "perseus");
}

TEST_F(JobPlanningTest, KeepsACapThatCameWhileTheFirstPlanWasMade) {
  training.register_all();
  training.plans_wait = true;
  ASSERT_TRUE(training.run_until(JobState::planning));
  cap(kKept);
  end_planning();
  ASSERT_EQ(training.record().state(), JobState::running);
  EXPECT_LE(peak_w(), *kKept.watts * 1.01);
}

TEST_F(JobPlanningTest, FollowsSettingsAndSignalsThatCameWhileTheFirstPlanWasMade) {
  training.register_all();
  training.plans_wait = true;
  ASSERT_TRUE(training.run_until(JobState::planning));
  (void)training.job().set(SlowdownTarget{5, std::nullopt}, training.now_s());
  training.job().set_signal(20, "carbon is high", training.now_s());
  training.settle();
  end_planning();
  training.run(6);
  EXPECT_GT(summary_json(training.record())["slowdown_pct"].get<double>(), 15);
}

TEST_F(JobPlanningTest, PlansAndGuardsByTheLargestSettings) {
  train_until_running();
  (void)training.job().set(SlowdownTarget{1'000, 1'000}, training.now_s());
  EXPECT_NO_THROW(training.settle());
  training.run(6);
  EXPECT_EQ(training.version_of(0), training.record().plan_version());
  EXPECT_GT(summary_json(training.record())["slowdown_pct"].get<double>(), 10);
}

TEST_F(JobPlanningTest, PlansOnceACapHasGoneThatNoPlanCouldKeep) {
  training.register_all();
  cap(kBelowAnyPlan);
  ASSERT_TRUE(training.run_until(JobState::observing));
  EXPECT_THAT(reason(), StartsWith("the power cap (at most 5 W per GPU) is not kept: "));
  training.restart_server();
  ASSERT_EQ(training.record().state(), JobState::observing);
  cap(std::nullopt);
  EXPECT_EQ(training.record().state(), JobState::running);
  training.run(6);
  EXPECT_GT(summary_json(training.record())["saved_pct"].get<double>(), 1);
}

TEST_F(JobPlanningTest, PlansForTheCapThatTakesThePlaceOfOneThatNoPlanCouldKeep) {
  training.register_all();
  cap(kBelowAnyPlan);
  ASSERT_TRUE(training.run_until(JobState::observing));
  training.plans_wait = true;
  cap(kKept);
  EXPECT_EQ(training.record().state(), JobState::planning);
  end_planning();
  ASSERT_EQ(training.record().state(), JobState::running);
  EXPECT_LE(peak_w(), *kKept.watts * 1.01);
}

TEST_F(JobPlanningTest, SaysAsLongAsACapIsNotKept) {
  train_until_running();
  cap(kBelowAnyPlan);
  EXPECT_EQ(training.record().state(), JobState::running);
  EXPECT_THAT(reason(), StartsWith("the power cap (at most 5 W per GPU) is not kept: "));
  cap(kKept);
  EXPECT_EQ(reason(), "follows a plan");
}

TEST_F(JobPlanningTest, KeepsTheGuardWhileACapIsNotKept) {
  train_until_running();
  cap(kBelowAnyPlan);
  training.job().set_signal(1, "carbon is high", training.now_s());
  training.settle();
  training.slow_all(1.035);
  training.run(60);
  EXPECT_THAT(training.reasons("guard"), Contains(HasSubstr("full clocks")));
}

TEST_F(JobPlanningTest, GuardsByNewSettingsWhileACapIsNotKept) {
  train_until_running();
  cap(kBelowAnyPlan);
  (void)training.job().set(SlowdownTarget{0, 50}, training.now_s());
  training.settle();
  training.slow_all(1.04);
  training.run(60);
  EXPECT_THAT(training.reasons("guard"), IsEmpty());
  (void)training.job().set(SlowdownTarget{0, 1}, training.now_s());
  training.settle();
  training.run(20);
  EXPECT_THAT(training.reasons("guard"), Contains(HasSubstr("1 % are allowed")));
}

TEST_F(JobPlanningTest, GuardsAfterTheServerWasStartedAgainThoughACapIsNotKept) {
  train_until_running();
  cap(kBelowAnyPlan);
  training.restart_server();
  training.slow_all(1.025);
  training.run(60);
  EXPECT_THAT(training.reasons("guard"), Contains(HasSubstr("full clocks")));
}

TEST_F(JobPlanningTest, GuardsNoPlanThatKeepsACapThoughTheNextOneCannotBeKept) {
  train_until_running();
  cap(kKept);
  training.run(6);
  cap(kBelowAnyPlan);
  training.restart_server();
  training.run(60);
  EXPECT_GT(summary_json(training.record())["slowdown_pct"].get<double>(), 2);
  EXPECT_THAT(training.reasons("guard"), IsEmpty());
}

TEST_F(JobPlanningTest, RestsTheGuardOnceACapIsKept) {
  train_until_running();
  cap(kKept);
  training.run(60);
  EXPECT_GT(summary_json(training.record())["slowdown_pct"].get<double>(), 2);
  EXPECT_THAT(training.reasons("guard"), IsEmpty());
}

TEST_F(JobPlanningTest, KeepsACapThoughTheGuardTakesFullClocksWhileItIsPlannedFor) {
  train_until_running();
  training.plans_wait = true;
  cap(kKept);
  training.slow_all(1.025);
  training.run(60);
  ASSERT_THAT(training.reasons("guard"), Not(IsEmpty()));
  end_planning();
  EXPECT_LE(peak_w(), *kKept.watts * 1.01);
}

TEST_F(JobPlanningTest, IssuesTheFullClocksThatTheGuardTakesForAPlan) {
  train_until_running();
  const double usual_s = training.time_s();
  training.slow_all(1.3);
  ASSERT_TRUE(training.run_until(JobState::profiling, 60));
  ASSERT_TRUE(training.run_until(JobState::running));
  EXPECT_THAT(clocks_mhz(), ElementsAre(training.rank_spec(0).clocks_mhz.front()));
  EXPECT_EQ(summary_json(training.record())["purpose"], "full_clocks");
  training.run(12);
  EXPECT_NEAR(training.time_s(), usual_s * 1.3, usual_s * 0.03);
  EXPECT_NEAR(summary_json(training.record())["baseline"]["time_s"].get<double>(), usual_s * 1.3, usual_s * 0.03);
}

TEST_F(JobPlanningTest, LeavesFullClocksInForceThatTheGuardHolds) {
  train_until_running();
  training.slow_all(1.04);
  training.run(30);
  ASSERT_THAT(clocks_mhz(), ElementsAre(training.rank_spec(0).clocks_mhz.front()));
  EXPECT_EQ(reason(), "full clocks: the guard has withdrawn the plan");
  const int version = training.record().plan_version();
  (void)training.job().set(StragglerTarget{1, 1.001}, training.now_s());
  training.settle();
  EXPECT_THAT(training.reasons("guard"), Contains(HasSubstr("the guard allows full clocks only")));
  EXPECT_THAT(training.record().activity.guard_decisions(), Contains(testing::Key("refuse_plan")));
  EXPECT_EQ(training.record().plan_version(), version);
  EXPECT_EQ(reason(), "full clocks: the guard has withdrawn the plan");
}

TEST_F(JobPlanningTest, AnswersWhatIsSetAlreadyWithTheDecisionThatSetIt) {
  train_until_running();
  const auto set_all = [&](double factor, const std::optional<PowerCap>& limit, std::optional<double> slowdown_pct) {
    Job& job = training.job();
    const std::vector<std::int64_t> ids{job.set(StragglerTarget{1, factor}, training.now_s()),
                                        job.set(limit, training.now_s()),
                                        job.set(SlowdownTarget{slowdown_pct, 4}, training.now_s())};
    training.settle();
    return ids;
  };
  const auto set = set_all(1.2, kKept, 3);
  const std::size_t decisions = training.decisions().size();
  EXPECT_EQ(set_all(1.2, kKept, std::nullopt), set);
  EXPECT_EQ(training.decisions().size(), decisions);
  training.restart_server();
  EXPECT_EQ(set_all(1.2, kKept, 3), set);
  const auto taken_back = set_all(1, std::nullopt, 0);
  EXPECT_GT(taken_back[0], set[2]);
  EXPECT_EQ(set_all(1, std::nullopt, 0), taken_back);
}

TEST_F(JobPlanningTest, HasADecisionForWhatHasBeenSetFromTheBeginning) {
  train_until_running();
  const std::int64_t first = training.job().set(std::optional<PowerCap>(), training.now_s());
  EXPECT_GT(first, 0);
  EXPECT_EQ(training.job().set(std::optional<PowerCap>(), training.now_s()), first);
}

}  // namespace
}  // namespace lowgear::server
