#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "base/core/error.h"
#include "server/job/job_documents.h"
#include "server/job/job_problems.h"
#include "server/simulated_job.h"

namespace lowgear::server {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

class JobWatchTest : public testing::Test {
 protected:
  void train_until_running() {
    training.train();
    training.run(5);
  }

  SimulatedJob training{small_job(2)};
};

TEST_F(JobWatchTest, FollowsASignalAndBack) {
  train_until_running();
  const double usual_s = training.time_s();
  const double usual_j = training.energy_j();
  training.job().set_signal(10, "carbon is high", training.now_s());
  training.settle();
  training.run(5);
  EXPECT_LT(training.energy_j(), usual_j);
  EXPECT_GT(training.time_s(), usual_s);
  EXPECT_LT(training.time_s(), usual_s * 1.105);
  training.job().set_signal(0, "carbon is low", training.now_s());
  training.job().set_signal(0, "carbon is low", training.now_s());
  training.settle();
  training.run(5);
  EXPECT_NEAR(training.energy_j(), usual_j, usual_j * 1e-6);
  EXPECT_THAT(training.reasons("signal"), testing::ElementsAre("carbon is high", "carbon is low"));
}

TEST_F(JobWatchTest, SeesAStragglerWhileTheGuardHoldsFullClocks) {
  train_until_running();
  training.slow_all(1.04);
  training.run(30);
  ASSERT_THAT(training.reasons("guard"), Contains(HasSubstr("full clocks")));
  ASSERT_THAT(summary_json(training.record())["stragglers"], IsEmpty());
  training.slow_down(1, 1.04 * 1.3);
  training.run(10);
  ASSERT_THAT(summary_json(training.record())["stragglers"], SizeIs(1));
  EXPECT_EQ(summary_json(training.record())["stragglers"][0]["rank"], 1);
}

TEST_F(JobWatchTest, CountsEachDecisionOfTheGuardOnce) {
  train_until_running();
  ASSERT_THAT(training.record().activity.guard_decisions(), IsEmpty());
  training.slow_all(1.04);
  training.run(30);
  ASSERT_THAT(training.reasons("guard"), Not(IsEmpty()));
  std::uint64_t sum = 0;
  for (const auto& [action, count] : training.record().activity.guard_decisions()) sum += count;
  EXPECT_EQ(sum, training.reasons("guard").size());
}

TEST_F(JobWatchTest, AllowsInItsMetricsWhatTheGuardAllows) {
  train_until_running();
  EXPECT_DOUBLE_EQ(job_snapshot(training.record()).slowdown_allowed_ratio, 0.02);
  training.job().set_signal(10, "carbon is high", training.now_s());
  EXPECT_DOUBLE_EQ(job_snapshot(training.record()).slowdown_allowed_ratio, 0.12);
  EXPECT_EQ(summary_json(training.record())["guard_limit_pct"], 12);
}

/// No rank has changed yet, so that the reason of such plans is empty.
TEST(JobWatchDecisions, AreFewForARankWhoseChangesLeaveThePlanAsItIs) {
  JobWatch watch(2);
  for (int plan = 0; plan < 3; ++plan) EXPECT_TRUE(watch.take_plan("", false)) << plan;
  EXPECT_FALSE(watch.take_plan("", false));
  EXPECT_TRUE(watch.take_plan("settings", false));
  EXPECT_TRUE(watch.take_plan("", true));
  EXPECT_TRUE(watch.take_plan("", false));
}

TEST_F(JobWatchTest, KnowsAStragglerWhenTheServerIsStartedAgain) {
  train_until_running();
  training.slow_down(1, 1.3);
  training.run(6);
  ASSERT_THAT(summary_json(training.record())["stragglers"], SizeIs(1));
  const std::size_t known = training.reasons("straggler").size();
  const int version = training.version_of(0);
  training.restart_server();
  training.run(6);
  EXPECT_THAT(summary_json(training.record())["stragglers"], SizeIs(1));
  EXPECT_THAT(training.reasons("straggler"), SizeIs(known));
  EXPECT_EQ(training.version_of(0), version);
}

TEST_F(JobWatchTest, SeesThatAStragglerHasRecoveredWhileTheServerWasAway) {
  train_until_running();
  training.slow_down(1, 1.3);
  training.run(6);
  ASSERT_THAT(summary_json(training.record())["stragglers"], SizeIs(1));
  training.slow_down(1, 1);
  training.restart_server();
  training.run(3);
  EXPECT_THAT(summary_json(training.record())["stragglers"], IsEmpty());
}

TEST_F(JobWatchTest, FindsAStragglerAgainThatWasRemovedWhileItIsSlow) {
  train_until_running();
  training.slow_down(1, 1.3);
  training.run(6);
  (void)training.job().set(StragglerTarget{1, 1}, training.now_s());
  training.settle();
  ASSERT_THAT(summary_json(training.record())["stragglers"], IsEmpty());
  training.run(3);
  EXPECT_THAT(summary_json(training.record())["stragglers"], SizeIs(1));
}

TEST(JobWatchOfReplicas, PlansBesideRanksWithoutAnAgent) {
  SimulatedJob training(small_job(2, 4));
  for (const int rank : {1, 2, 3}) training.lose_agent(rank);  // of the first stage; one is left
  training.train();
  training.run(6);
  const Json summary = summary_json(training.record());
  EXPECT_FALSE(summary["baseline"].is_null());
  EXPECT_GT(summary["saved_pct"].get<double>(), 0);
  EXPECT_EQ(summary["reason"], "follows a plan; rank 1 and 2 others do not follow the plan");
}

TEST(JobWatchOfReplicas, MeasuresTheBaselineBesideARankWithoutAnAgent) {
  SimulatedJob first(small_job(2, 2));
  first.train();
  SimulatedJob training(small_job(2, 2));
  training.know({{profile_key(training.record()), first.record().profiling.own()}});
  training.lose_agent(1);
  training.register_all();
  ASSERT_EQ(training.record().state(), JobState::baseline);
  for (int i = 0; i < 12 && training.record().state() == JobState::baseline; ++i) {
    EXPECT_EQ(summary_json(training.record())["reason"], "measures iterations at full clocks, for comparison");
    EXPECT_THAT(problems_of(training.record()), IsEmpty()) << "there is no plan yet";
    training.run(1);
  }
  ASSERT_EQ(training.record().state(), JobState::running);
  training.run(6);
  EXPECT_EQ(summary_json(training.record())["reason"], "follows a plan; rank 1 does not follow the plan");
}

TEST_F(JobWatchTest, GuardsAJobOneOfWhoseRanksHasLostItsAgent) {
  train_until_running();
  training.lose_agent(1);
  training.slow_all(1.025);
  training.run(60);
  EXPECT_THAT(training.reasons("guard"), Contains(HasSubstr("full clocks")));
  EXPECT_FALSE(summary_json(training.record())["slowdown_pct"].is_null());
}

TEST_F(JobWatchTest, GuardsAJobWhoseRanksFollowDifferentPlans) {
  train_until_running();
  training.deaf[1] = true;
  (void)training.job().set(SlowdownTarget{0.5, std::nullopt}, training.now_s());
  training.settle();
  training.slow_all(1.028);
  training.run(60);
  EXPECT_THAT(training.reasons("guard"), Contains(HasSubstr("full clocks")));
}

TEST_F(JobWatchTest, MeasuresTheProfileAgainWhenAllRanksDrift) {
  train_until_running();
  const double usual_s = training.time_s();
  training.slow_all(1.25);
  ASSERT_TRUE(training.run_until(JobState::profiling, 60));
  EXPECT_THAT(training.reasons("drift"), Not(IsEmpty()));
  EXPECT_THAT(summary_json(training.record())["stragglers"], IsEmpty());
  ASSERT_TRUE(training.run_until(JobState::running));
  // The guard sees iterations beyond the old baseline, holds full clocks, and finds by them that it is the baseline.
  training.run(60);
  EXPECT_THAT(training.reasons("baseline"), Not(IsEmpty()));
  EXPECT_GT(summary_json(training.record())["baseline"]["time_s"].get<double>(), usual_s * 1.2);
}

TEST_F(JobWatchTest, RenewsTheBaselineFromTheTimeSinceItChanged) {
  train_until_running();
  const double usual_s = training.time_s();
  training.slow_all(1.04);
  while (training.reasons("baseline").size() < 2) {
    training.run(1);
    ASSERT_LT(training.iteration(), 200);
  }
  training.run(30);  // at the same full clocks
  const int version = training.record().plan_version();
  training.slow_all(1.3);
  training.run(15);
  ASSERT_EQ(training.record().plan_version(), version);
  EXPECT_NEAR(summary_json(training.record())["baseline"]["time_s"].get<double>(), usual_s * 1.3, usual_s * 0.01);
  EXPECT_THAT(training.reasons("baseline").back(),
              AllOf(StartsWith("full clocks now take "), EndsWith(" iterations; stalled and not counted: 0)")));
}

TEST_F(JobWatchTest, MeasuresTheProfileAgainThoughTheGuardActsOnTheSameIteration) {
  train_until_running();
  training.slow_all(1.65);
  ASSERT_TRUE(training.run_until(JobState::profiling, 60));
  EXPECT_EQ(summary_json(training.record())["purpose"], "profile");
  EXPECT_TRUE(training.run_until(JobState::running));
}

TEST_F(JobWatchTest, MeasuresTheProfileOnceAfterOneDrift) {
  for (const double factor : {1.3, 1.6}) {
    protocol::JobSpec spec = small_job(2);
    spec.guard_pct = 900;
    SimulatedJob drifting(spec);
    drifting.train();
    drifting.run(10);
    drifting.slow_all(factor);
    drifting.run(300);
    EXPECT_EQ(drifting.record().state(), JobState::running);
    EXPECT_THAT(drifting.reasons("drift"), SizeIs(1)) << factor;
  }
}

TEST_F(JobWatchTest, KnowsNoStragglerOfAProfileThatHasBeenReplaced) {
  protocol::JobSpec spec = small_job(4);
  spec.guard_pct = 900;
  SimulatedJob drifting(spec);
  drifting.train();
  drifting.slow_down(1, 1.2);
  drifting.run(10);
  ASSERT_THAT(summary_json(drifting.record())["stragglers"], SizeIs(1));
  for (int rank = 0; rank < 4; ++rank) drifting.slow_down(rank, rank == 1 ? 1.2 * 1.3 : 1.3);
  ASSERT_TRUE(drifting.run_until(JobState::profiling, 60));
  ASSERT_TRUE(drifting.run_until(JobState::running));
  EXPECT_THAT(summary_json(drifting.record())["stragglers"], IsEmpty()) << "the profile holds how slow it is";
}

TEST_F(JobWatchTest, MakesNothingOfPlansFromAProfileThatHasBeenReplaced) {
  protocol::JobSpec spec = small_job(2, 2);
  spec.guard_pct = 900;
  spec.profiling->clocks = 4;
  spec.profiling->iterations = 1;
  SimulatedJob drifting(spec);
  drifting.train();
  drifting.run(10);
  drifting.deaf[3] = true;  // keeps its plan whole
  drifting.slow_all(1.3);
  ASSERT_TRUE(drifting.run_until(JobState::profiling, 120));
  ASSERT_TRUE(drifting.run_until(JobState::running, 2'000));
  drifting.run(60);
  EXPECT_THAT(drifting.reasons("straggler"), IsEmpty());
}

TEST_F(JobWatchTest, PlansNothingFromAProfileThatIsBeingReplaced) {
  train_until_running();
  training.plans_wait = true;
  training.slow_all(1.25);
  (void)training.job().set(SlowdownTarget{10, std::nullopt}, training.now_s());
  training.settle();
  ASSERT_TRUE(training.run_until(JobState::profiling, 60));
  training.plans_wait = false;
  training.settle();
  EXPECT_EQ(training.record().state(), JobState::profiling);
}

TEST_F(JobWatchTest, HasARankCountForNothingThatLeapsAhead) {
  train_until_running();
  const int version = training.version_of(0);
  protocol::RankReports leap;
  leap.rank = 1;
  leap.reports.push_back(
      {.iteration = 1'000'000'000'000, .plan_version = version, .time_s = 1, .compute_s = 1, .energy_j = {}});
  EXPECT_THROW(training.job().report(leap, training.now_s()), InputError);
  (void)training.job().set(SlowdownTarget{10, std::nullopt}, training.now_s());
  training.settle();
  training.run(5);
  EXPECT_GT(training.version_of(0), version);
  EXPECT_GT(training.version_of(1), version);
}

TEST_F(JobWatchTest, PutsNoPlanOffForIterationsOfNoTime) {
  training.register_all();
  for (int iteration = 0; iteration < 3; ++iteration) {
    for (int rank = 0; rank < 2; ++rank) {
      protocol::RankReports reports;
      reports.rank = rank;
      reports.reports.push_back(
          {.iteration = iteration, .plan_version = 0, .time_s = 1e-9, .compute_s = 0, .energy_j = {}});
      training.job().report(reports, training.now_s());
    }
  }
  const Json plan = Json::parse(*training.job().plan_after(0, 0, training.now_s()));
  EXPECT_LT(plan["from_iteration"].get<std::int64_t>(), 1'000);
}

TEST_F(JobWatchTest, RefusesCellsOfAnotherRanksStage) {
  training.register_all();
  ASSERT_TRUE(training.run_until(JobState::profiling));
  const auto posted = [](int rank, int stage) {
    protocol::RankCells cells{.rank = rank, .plan_version = 2, .cells = {}, .blocking = {}};
    cells.blocking.push_back({.stage = stage, .power_w = 70, .error_w = 1});
    return cells;
  };
  EXPECT_THROW(training.job().add_cells(posted(0, 1), training.now_s()), InputError);
  EXPECT_NO_THROW(training.job().add_cells(posted(0, 0), training.now_s()));
}

TEST_F(JobWatchTest, GivesAProfileUpThatNobodyMeasures) {
  training.register_all();
  ASSERT_TRUE(training.run_until(JobState::profiling));
  while (training.record().state() == JobState::profiling) {
    const int version = training.record().plan_version();
    for (int rank = 0; rank < 2; ++rank) {
      training.job().add_cells({.rank = rank, .plan_version = version, .cells = {}, .blocking = {}}, training.now_s());
    }
    ASSERT_LT(version, 50);
  }
  EXPECT_EQ(training.record().state(), JobState::observing);
  EXPECT_THAT(training.reasons("failed"), IsEmpty());
}

TEST_F(JobWatchTest, ContinuesWhenTheServerEndsWhileAProfileIsJudged) {
  training.register_all();
  ASSERT_TRUE(training.run_until(JobState::profiling));
  Job& job = training.job();
  StoreContents stored = training.stored();
  JobChanges last;
  const Json plan = Json::parse(*job.plan_after(0, 0, training.now_s()));
  std::vector<int> clocks_mhz{plan["plan"]["stages"][0]["ops"][0]["mhz"].get<int>()};
  for (const Json& trial : plan["trials"]) clocks_mhz.push_back(trial["clock_mhz"].get<int>());
  for (int rank = 0; rank < 2; ++rank) {
    protocol::RankCells cells{.rank = rank, .plan_version = job.record().plan_version(), .cells = {}, .blocking = {}};
    for (const int clock_mhz : clocks_mhz) {
      for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
        cells.cells.push_back({.stage = rank,
                               .kind = kind,
                               .clock_mhz = clock_mhz,
                               .units = 4,
                               .time_s = 100.0 / clock_mhz,
                               .time_error_s = 0,
                               .energy_j = 0.01 * clock_mhz,
                               .energy_error_j = 0});
      }
    }
    cells.blocking.push_back({.stage = rank, .power_w = 70, .error_w = 1});
    job.add_cells(cells, training.now_s());
    last = job.take_changes();
    for (StoredCells& row : last.store.cells) stored.cells.push_back(std::move(row));
    if (!last.store.jobs.empty()) stored.jobs = last.store.jobs;
  }
  ASSERT_TRUE(last.planning);
  const auto restored = Job::restore(stored.jobs.at(0), stored, {}, training.now_s());
  const JobChanges changes = restored->take_changes();
  ASSERT_TRUE(changes.planning);  // no rank will post again
  EXPECT_EQ(changes.planning->kind, PlanningTask::Kind::judge_profile);
}

TEST_F(JobWatchTest, IsNotDisturbedByReportsThatComeAgain) {
  train_until_running();
  const Json before = summary_json(training.record());
  protocol::RankReports again;
  again.rank = 0;
  again.reports.push_back({.iteration = 0, .plan_version = 1, .time_s = 500, .compute_s = 500, .energy_j = 1e6});
  training.job().report(again, training.now_s());
  EXPECT_TRUE(training.job().take_changes().store.empty());
  EXPECT_EQ(summary_json(training.record()), before);
}

}  // namespace
}  // namespace lowgear::server
