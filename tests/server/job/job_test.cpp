#include "server/job/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error.h"
#include "planning/plan/plan_json.h"
#include "server/job/job_documents.h"
#include "server/job/job_problems.h"
#include "server/simulated_job.h"

namespace lowgear::server {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Job, WaitsForAllItsRanks) {
  SimulatedJob training(small_job(2));
  Job& job = training.job();
  (void)job.register_rank(training.rank_spec(0), "key", {}, 1);
  EXPECT_EQ(job.record().state(), JobState::registering);
  EXPECT_EQ(job.plan_after(0, 0, 1), nullptr);
  (void)job.register_rank(training.rank_spec(1), "key", {}, 1);
  EXPECT_EQ(job.record().state(), JobState::baseline) << "what trials cost is counted against it";
  EXPECT_NE(job.plan_after(0, 0, 1), nullptr);
}

TEST(Job, ProfilesPlansAndSavesEnergyWithoutTakingLonger) {
  SimulatedJob training(small_job(4));
  training.train();
  training.run(6);
  const Json summary = summary_json(training.record());
  EXPECT_GT(summary["saved_pct"].get<double>(), 3.0);
  EXPECT_LT(summary["slowdown_pct"].get<double>(), 0.5);
  EXPECT_EQ(summary["purpose"], "train");
  // What was planned is what was measured, but for the clocks between those that were.
  EXPECT_NEAR(summary["time_s"].get<double>() / summary["planned_time_s"].get<double>(), 1, 0.01);
  EXPECT_NEAR(summary["energy_j"].get<double>() / summary["planned_energy_j"].get<double>(), 1, 0.01);
  EXPECT_THAT(training.reasons("failed"), IsEmpty());
}

TEST(Job, SavesNoLessBecauseOneIterationStalled) {
  SimulatedJob training(small_job(4));
  training.train();
  training.run(8);
  training.slow_all(30);
  training.run(1);
  training.slow_all(1);
  training.run(2);
  const Json summary = summary_json(training.record());
  EXPECT_EQ(summary["stalled_iterations"], 1);
  EXPECT_GT(summary["saved_pct"].get<double>(), 3.0);
  EXPECT_LT(summary["slowdown_pct"].get<double>(), 0.5);
  EXPECT_LT(summary["slowdown_error_pct"].get<double>(), 0.5);
}

protocol::TrainingDecision training_decision(std::int64_t number, const std::string& reason) {
  return {.number = number,
          .age_s = 4,
          .from_iteration = 1200,
          .technique = "freezing",
          .change = "adopt",
          .configuration = "6 of 24 blocks frozen",
          .reason = reason};
}

TEST(Job, KeepsWhatTheTrainingProgramDecidesOnce) {
  SimulatedJob training(small_job(2));
  training.register_all();
  protocol::RankDecisions reported{.rank = 1, .work = {}, .decisions = {training_decision(1, "first")}};
  training.job().add_decisions(reported, training.now_s() + 10);
  reported.decisions.push_back(training_decision(4, "second"));
  training.job().add_decisions(reported, training.now_s() + 10);
  training.job().add_decisions(reported, training.now_s() + 10);
  training.settle();
  EXPECT_THAT(training.reasons("technique"), testing::ElementsAre("first", "second"));
  const Json& newest = training.decisions().back();
  EXPECT_EQ(newest["id"], training.decisions().size());
  EXPECT_EQ(newest["time_s"], training.now_s() + 10 - 4);
  EXPECT_EQ(newest["rank"], 1);
  EXPECT_EQ(newest["technique"], "freezing");
  EXPECT_EQ(newest["change"], "adopt");
  EXPECT_EQ(newest["from_iteration"], 1200);
  EXPECT_EQ(newest["configuration"], "6 of 24 blocks frozen");
}

TEST(Job, DatesNoDecisionBeforeItsBegin) {
  SimulatedJob training(small_job(1));
  training.register_all();
  protocol::TrainingDecision old = training_decision(1, "x");
  old.age_s = 1e8;
  const double created_s = training.record().status.created_s;
  training.job().add_decisions({.rank = 0, .work = {}, .decisions = {old}}, created_s + 10);
  training.settle();
  EXPECT_EQ(training.decisions().back()["time_s"], created_s);
}

TEST(Job, ShowsWhatItWorksOn) {
  SimulatedJob training(small_job(1));
  training.register_all();
  EXPECT_TRUE(summary_json(training.record())["work"].is_null());
  const protocol::JobWork work{.layers = 24, .frozen_layers = 6, .precision = "bf16"};
  training.job().add_decisions({.rank = 0, .work = work, .decisions = {}}, training.now_s());
  EXPECT_TRUE(training.job().take_changes().summary_changed);
  training.job().add_decisions({.rank = 0, .work = work, .decisions = {}}, training.now_s());
  EXPECT_TRUE(training.job().take_changes().store.empty()) << "nothing is new";
  training.job().add_decisions({.rank = 0, .work = {}, .decisions = {}}, training.now_s());
  EXPECT_EQ(summary_json(training.record())["work"].dump(), R"({"layers":24,"frozen_layers":6,"precision":"bf16"})");
  EXPECT_EQ(job_snapshot(training.record()).work, work);
}

TEST(Job, SwitchesAllRanksAtOneIteration) {
  SimulatedJob training(small_job(4));
  training.register_all();
  for (int i = 0; i < 120; ++i) {
    training.run(1);
    for (int rank = 1; rank < 4; ++rank) ASSERT_EQ(training.version_of(rank), training.version_of(0));
  }
  EXPECT_EQ(training.record().state(), JobState::running);
}

TEST(Job, OffersAPlanAgainToARankThatHasMissedIt) {
  SimulatedJob training(small_job(2));
  training.train();
  training.run(4);
  const int before = training.version_of(0);
  training.deaf[1] = true;
  (void)training.job().set(SlowdownTarget{10, std::nullopt}, training.now_s());
  training.settle();
  training.run(5);
  EXPECT_GT(training.version_of(0), before);
  EXPECT_EQ(training.version_of(1), before);
  training.deaf[1] = false;
  training.run(4);
  EXPECT_EQ(training.version_of(1), training.version_of(0));
}

TEST(Job, SlowsTheOthersDownForAStragglerAndBack) {
  SimulatedJob training(small_job(4));
  training.train();
  training.run(5);
  const double usual_s = training.time_s();
  const double usual_j = training.energy_j();
  training.slow_down(1, 1.2);
  training.run(1);
  const double slow_j = training.energy_j();
  training.run(6);
  EXPECT_LT(training.energy_j(), slow_j);
  EXPECT_THAT(training.reasons("straggler"), Contains(HasSubstr("rank 1")));
  EXPECT_THAT(summary_json(training.record())["stragglers"], SizeIs(1));
  training.slow_down(1, 1);
  training.run(6);
  EXPECT_NEAR(training.time_s(), usual_s, usual_s * 2e-3);
  EXPECT_NEAR(training.energy_j(), usual_j, usual_j * 5e-3);
  EXPECT_THAT(summary_json(training.record())["stragglers"], IsEmpty());
}

TEST(Job, BlamesNoPlanThatNoRankHasReceived) {
  SimulatedJob training(small_job(4));
  training.train();
  training.run(5);
  for (int rank = 0; rank < 4; ++rank) training.deaf[rank] = true;
  training.slow_down(0, 1.3);
  training.run(7);
  EXPECT_THAT(training.reasons("straggler"), Contains(HasSubstr("rank 0")));
  EXPECT_LT(training.version_of(1), training.record().plan_version()) << "the plan for the straggler has not arrived";
  EXPECT_THAT(training.reasons("guard"), IsEmpty());
  for (int rank = 0; rank < 4; ++rank) training.deaf[rank] = false;
  training.run(6);
  EXPECT_EQ(training.version_of(1), training.record().plan_version());
  EXPECT_THAT(training.reasons("guard"), IsEmpty());
}

TEST(Job, LetsTheOtherReplicasWaitSlowlyForAReportedStraggler) {
  SimulatedJob training(small_job(2, 3));
  training.train();
  training.run(5);
  training.slow_down(0, 1.3);
  (void)training.job().set(StragglerTarget{0, 1.3}, training.now_s());
  training.settle();
  const double before_j = training.energy_j();
  training.run(1);
  const double slow_s = training.time_s();
  const double slow_j = training.energy_j();
  training.run(5);
  EXPECT_LE(training.time_s(), slow_s);
  EXPECT_LT(training.energy_j(), slow_j * 0.98);
  EXPECT_GT(slow_j, before_j);
}

TEST(Job, BeginsThoughTheServerWasStartedAgainWhileRanksRegistered) {
  SimulatedJob first(small_job(2));
  first.train();
  SimulatedJob training(small_job(2));
  training.know({{small_job(2).profile_key(false), first.record().profiling.own()}});
  (void)training.job().register_rank(training.rank_spec(0), "key-0", {}, training.now_s());
  training.settle();
  training.restart_server();
  training.register_all();
  EXPECT_TRUE(training.run_until(JobState::running));
}

TEST(Job, KeepsAPowerCap) {
  SimulatedJob training(small_job(2));
  training.train();
  training.run(4);
  const double free_s = training.time_s();
  (void)training.job().set(PowerCap{.watts = 200}, training.now_s());
  training.settle();
  training.run(6);
  EXPECT_GT(training.time_s(), free_s);
  // No unit of any rank draws more than the cap.
  const plan::Plan plan = [&] {
    const Json timeline = timeline_json(training.record());
    return plan::read_plan(timeline["plan"].dump(), "plan");
  }();
  for (const auto& ops : plan.ranks) {
    for (const plan::PlannedOp& op : ops) {
      const profile::Measurement& row = training.truth().at_clock(op.stage, op.kind, op.clock_mhz);
      EXPECT_LE(row.energy_j / row.time_s, 200 * 1.01);
    }
  }
}

TEST(Job, SaysWhatACapWouldNeedWhenNoPlanKeepsIt) {
  SimulatedJob training(small_job(2));
  training.train();
  training.run(4);
  const int version = training.version_of(0);
  (void)training.job().set(PowerCap{.watts = 5}, training.now_s());
  training.settle();
  training.run(3);
  EXPECT_EQ(training.version_of(0), version);
  EXPECT_THAT(training.reasons("failed"), SizeIs(1));
  EXPECT_EQ(training.record().state(), JobState::running);
}

TEST(Job, ContinuesInAnyStateAfterTheServerWasStartedAgain) {
  SimulatedJob straight(small_job(2));
  straight.train();
  for (int restart_at = 1; restart_at < 60; restart_at += 7) {
    SimulatedJob training(small_job(2));
    training.register_all();
    training.run(restart_at);
    const JobState state = training.record().state();
    const Json before = summary_json(training.record());
    training.restart_server();
    EXPECT_EQ(training.record().state(), state) << restart_at;
    EXPECT_EQ(summary_json(training.record())["plan_version"], before["plan_version"]) << restart_at;
    EXPECT_EQ(summary_json(training.record())["baseline"], before["baseline"]) << restart_at;
    ASSERT_TRUE(training.run_until(JobState::running)) << restart_at;
    training.run(6);
    EXPECT_NEAR(training.energy_j(), summary_json(straight.record())["planned_energy_j"].get<double>(),
                training.energy_j() * 0.02);
  }
}

TEST(Job, UsesAProfileThatIsKnown) {
  SimulatedJob first(small_job(2));
  first.train();
  ASSERT_NE(first.record().profiling.own(), nullptr);
  SimulatedJob training(small_job(2));
  training.know({{profile_key(training.record()), first.record().profiling.own()}});
  training.register_all();
  EXPECT_EQ(training.record().state(), JobState::baseline);
  ASSERT_TRUE(training.run_until(JobState::running, 12));
  training.run(4);
  EXPECT_GT(summary_json(training.record())["saved_pct"].get<double>(), 2.0);
}

TEST(Job, BeginsWithAProfileThatBecameKnownAsTheServerEnded) {
  SimulatedJob first(small_job(2));
  first.train();
  protocol::JobSpec spec = small_job(2);
  spec.profiling.reset();
  SimulatedJob training(spec);
  training.register_all();
  ASSERT_EQ(training.record().state(), JobState::observing);
  EXPECT_THAT(training.record().status.reason, HasSubstr("lowgear run --search"));
  training.know({{profile_key(training.record()), first.record().profiling.own()}});
  training.restart_server();
  EXPECT_EQ(training.record().state(), JobState::baseline);
  EXPECT_TRUE(training.run_until(JobState::running, 12));
}

TEST(Job, ObservesWhereNothingSetsClocks) {
  SimulatedJob training(small_job(1));
  protocol::RankSpec rank = training.rank_spec(0);
  rank.follows_plans = false;
  (void)training.job().register_rank(rank, "key", {}, 1);
  EXPECT_EQ(training.record().state(), JobState::observing);
  const std::string reason = training.record().status.reason;
  protocol::RankReports reports;
  for (const char* refusal : {"the user may not change the GPU", ""}) {
    reports.refusal = refusal;
    training.job().report(reports, 2);
    EXPECT_EQ(training.record().status.reason, reason);
  }
  training.settle();
  EXPECT_THAT(training.reasons("refusal"),
              testing::ElementsAre("rank 0 follows no plans: the user may not change the GPU"));
}

protocol::JobSpec steps_job() {
  protocol::JobSpec spec = small_job(2);
  spec.policy = protocol::JobPolicy::steps;
  spec.profiling.reset();
  return spec;
}

/// Both ranks report an iteration whose units take as long as was predicted, or `factor` times as long.
void report_step(SimulatedJob& training, std::int64_t iteration, double predicted_s, double factor = 1) {
  const double now_s = training.now_s() + static_cast<double>(iteration);
  for (int rank = 0; rank < 2; ++rank) {
    protocol::RankReports reports{.rank = rank, .reports = {}, .gpu = {}};
    reports.reports.push_back({.iteration = iteration,
                               .time_s = factor * predicted_s + 0.1,
                               .compute_s = factor * predicted_s / 2,
                               .energy_j = 100 * predicted_s,
                               .units_time_s = factor * predicted_s,
                               .predicted_time_s = predicted_s});
    training.job().report(reports, now_s);
  }
  training.settle();
}

TEST(Job, IsWatchedAndNotPlannedWhereItPlansItsOwnSteps) {
  SimulatedJob training(steps_job());
  training.register_all();
  EXPECT_EQ(training.record().state(), JobState::observing);
  EXPECT_EQ(training.record().status.reason, "the job plans its own steps");
  EXPECT_TRUE(summary_json(training.record())["prediction"].is_null());
  for (int i = 0; i < 30; ++i) report_step(training, i, i % 5 == 4 ? 3.0 : 1.0);
  report_step(training, 30, 1, 2.5);
  const auto expect_watched = [&] {
    const Json summary = summary_json(training.record());
    EXPECT_EQ(summary["state"], "observing");
    EXPECT_EQ(summary["policy"], "steps");
    EXPECT_EQ(summary["plan_version"], 0);
    EXPECT_TRUE(summary["problems"].empty()) << summary["problems"];
    EXPECT_TRUE(summary["stragglers"].empty());
    EXPECT_EQ(summary["stalled_iterations"], 1) << "the long ones were predicted to be long";
    EXPECT_EQ(summary["prediction"],
              (Json{{"iterations", 30}, {"stalled_iterations", 1}, {"mean_error_pct", 0.0}, {"rms_error_pct", 0.0}}));
    const Json newest = iterations_json(training.record(), 29, 10)["iterations"][0];
    EXPECT_EQ(newest["units_time_s"], 2.5);
    EXPECT_EQ(newest["predicted_time_s"], 1.0);
    EXPECT_EQ(newest["full_clocks"], false);
  };
  expect_watched();
  EXPECT_EQ(training.job().plan_after(0, 0, training.now_s()), nullptr);
  training.restart_server();
  expect_watched();
}

TEST(Job, SaysThatEveryPredictionOfItsStepsIsFarOff) {
  SimulatedJob training(steps_job());
  training.register_all();
  for (int i = 0; i < 6; ++i) report_step(training, i, 1, 2.3);
  const Json summary = summary_json(training.record());
  EXPECT_EQ(
      summary["prediction"],
      (Json{{"iterations", 0}, {"stalled_iterations", 6}, {"mean_error_pct", nullptr}, {"rms_error_pct", nullptr}}));
  EXPECT_EQ(summary["stalled_iterations"], 6);
  EXPECT_NEAR(summary["time_s"].get<double>(), 2.4, 1e-12) << "measured times count all the same";
}

TEST(Job, PlansItsOwnStepsAlsoOnceAProfileOfItsModelIsKnown) {
  SimulatedJob first(small_job(2));
  first.train();
  const MeasuredProfiles known{{profile_key(first.record()), first.record().profiling.own()}};
  SimulatedJob training(steps_job());
  training.know(known);
  training.register_all();
  EXPECT_EQ(training.record().state(), JobState::observing);
  training.job().profile_found(known.begin()->second, training.now_s());
  training.settle();
  EXPECT_EQ(training.record().state(), JobState::observing);
  training.restart_server();
  EXPECT_EQ(training.record().state(), JobState::observing);
  training.job().set_signal(5, "the grid is short of power", training.now_s());
  training.settle();
  EXPECT_EQ(training.record().plan_version(), 0);
}

TEST(Job, KeepsABoundedNumberOfPredictions) {
  SimulatedJob training(steps_job());
  training.register_all();
  const auto kept = static_cast<std::int64_t>(IterationHistory::kKept);
  for (std::int64_t i = 0; i < kept + 10; ++i) report_step(training, i, 1);
  EXPECT_EQ(summary_json(training.record())["prediction"]["iterations"], kept);
}

TEST(Job, HasPredictionsOnlyWhereItPlansItsOwnSteps) {
  SimulatedJob training(small_job(2));
  training.register_all();
  training.run(1);
  EXPECT_TRUE(summary_json(training.record())["prediction"].is_null());
  EXPECT_FALSE(iterations_json(training.record(), -1, 1)["iterations"][0].contains("predicted_time_s"));
}

Json rank_shown(SimulatedJob& training, int rank) {
  return ranks_json(training.record()).at(static_cast<std::size_t>(rank));
}

TEST(Job, ShowsWhichRankRefusesPlansAndWhy) {
  SimulatedJob training(small_job(2));
  training.register_all();
  ASSERT_TRUE(training.run_until(JobState::running));
  EXPECT_TRUE(rank_shown(training, 1)["follows_plans"].get<bool>());
  EXPECT_TRUE(rank_shown(training, 1)["refusal"].is_null());
  training.refusals[1] = "the schedule differs";
  training.run(3);
  EXPECT_FALSE(rank_shown(training, 1)["follows_plans"].get<bool>());
  EXPECT_EQ(rank_shown(training, 1)["refusal"], "the schedule differs");
  EXPECT_THAT(training.reasons("refusal"), testing::ElementsAre("rank 1 follows no plans: the schedule differs"));
  EXPECT_EQ(training.record().state(), JobState::running) << "the others follow it";
  training.restart_server();
  EXPECT_EQ(rank_shown(training, 1)["refusal"], "the schedule differs") << "it is stored";
  training.refusals[1].clear();
  training.run(8);
  EXPECT_TRUE(rank_shown(training, 1)["follows_plans"].get<bool>());
  EXPECT_EQ(training.version_of(1), training.version_of(0)) << "it is offered the plan anew";
}

TEST(Job, ObservesWhileEveryRankRefuses) {
  SimulatedJob training(small_job(2));
  training.register_all();
  ASSERT_TRUE(training.run_until(JobState::running));
  training.refusals = {"no", "neither"};
  training.run(2);
  EXPECT_EQ(training.record().state(), JobState::observing);
  EXPECT_THAT(training.record().status.reason, HasSubstr("rank 1 follows no plans: neither"));
  training.run(5);
  EXPECT_EQ(training.record().state(), JobState::observing);
  training.refusals = {"", ""};
  EXPECT_TRUE(training.run_until(JobState::running));
}

TEST(Job, ProfilesWithoutARankThatRefuses) {
  SimulatedJob training(small_job(2, 2));
  training.register_all();
  ASSERT_TRUE(training.run_until(JobState::profiling));
  training.refusals[0] = "no";
  ASSERT_TRUE(training.run_until(JobState::running)) << "the other replica has the same stages";
}

TEST(Job, ObservesWhereNoRankOfAJobThatBeginsFollowsPlans) {
  SimulatedJob training(small_job(1));
  training.refusals[0] = "no adapter for this version";
  training.register_all();
  training.run(3);
  EXPECT_EQ(training.record().state(), JobState::observing);
}

TEST(Job, IsMeasuredOnceTheGpuOfAStageIsFree) {
  SimulatedJob training(small_job(2));
  training.refusals[0] = "process 590 holds this GPU";
  training.register_all();
  training.run(3);
  EXPECT_EQ(training.record().state(), JobState::observing);
  EXPECT_THAT(training.record().status.reason, HasSubstr("rank 0 follows no plans: process 590 holds this GPU"));
  training.refusals[0].clear();
  EXPECT_TRUE(training.run_until(JobState::running));
}

TEST(Job, FollowsTheNumbersThatRanksGiveTheirIterations) {
  SimulatedJob training(small_job(2));
  training.count_from(5000);
  training.register_all();
  ASSERT_TRUE(training.run_until(JobState::running));
  training.run(3);
  const int followed = training.version_of(0);
  EXPECT_GT(followed, 0);
  training.count_from(90'000);
  training.run(3);
  EXPECT_EQ(training.version_of(0), followed) << "a leap changes nothing";
  (void)training.job().set(SlowdownTarget{10, std::nullopt}, training.now_s());
  training.settle();
  training.run(5);
  EXPECT_GT(training.version_of(0), followed) << "the next plan begins after it";
  EXPECT_EQ(training.version_of(1), training.version_of(0));
  EXPECT_EQ(training.record().history.last_iteration(0), 90'007);
}

TEST(Job, IsFinishedOnceAllRanksHaveEnded) {
  SimulatedJob training(small_job(2));
  training.register_all();
  training.run(3);
  training.job().finish_rank(0, 1);
  training.job().finish_rank(0, 1);
  EXPECT_FALSE(training.record().is_over());
  training.job().finish_rank(1, 2);
  EXPECT_EQ(training.record().state(), JobState::finished);
}

TEST(Job, SaysWhichRanksHaveFailed) {
  SimulatedJob training(small_job(2));
  training.register_all();
  training.run(3);
  training.job().finish_rank(1, training.now_s(), "RuntimeError");
  training.job().finish_rank(1, training.now_s(), "OSError");
  training.job().finish_rank(0, training.now_s());
  training.settle();
  EXPECT_EQ(training.record().status.reason,
            "all ranks have ended before the first plan, in state baseline; rank 1 failed (RuntimeError)");
  EXPECT_THAT(training.reasons("failure"), testing::ElementsAre("rank 1 failed (RuntimeError)"));
  const Json summary = summary_json(training.record());
  ASSERT_EQ(summary["problems"].size(), 1);
  EXPECT_EQ(summary["problems"][0]["kind"], "rank_failed");
  const Json ranks = ranks_json(training.record());
  EXPECT_EQ(ranks[0]["failure"], Json());
  EXPECT_EQ(ranks[1]["failure"], "RuntimeError");
}

TEST(Job, NamesTheFirstFailureFirstAndEachWithItsReason) {
  SimulatedJob training(small_job(4));
  training.register_all();
  training.run(3);
  training.job().finish_rank(2, training.now_s(), "exit status 3");
  training.job().finish_rank(3, training.now_s(), "RuntimeError");
  training.settle();
  training.restart_server();
  training.job().finish_rank(0, training.now_s(), "RuntimeError");
  training.job().finish_rank(1, training.now_s(), "no word of it; its command was ended by signal 9");
  EXPECT_EQ(problems_of(training.record()).front().text,
            "rank 2 failed (exit status 3), then rank 3 and 1 other (RuntimeError); perhaps before, rank 1 (no word of "
            "it; its command was ended by signal 9)");
}

TEST(Job, EndsWhenNobodyIsHeardOf) {
  SimulatedJob training(small_job(2));
  training.register_all();
  finish_if_silent(training.job(), training.now_s() + 10, 60);
  EXPECT_FALSE(training.record().is_over());
  finish_if_silent(training.job(), training.now_s() + 61, 60);
  EXPECT_TRUE(training.record().is_over());
}

TEST(Job, EndsOnceAllThatHadRegisteredHaveEndedAndNoOtherComes) {
  SimulatedJob training(small_job(2));
  const auto come = [&](int rank) {
    (void)training.job().register_rank(training.rank_spec(rank), "key", {}, training.now_s());
  };
  come(0);
  finish_if_silent(training.job(), training.now_s() + 500, 1'800);
  EXPECT_FALSE(training.record().is_over()) << "it may still run";
  training.job().finish_rank(0, training.now_s());
  EXPECT_EQ(training.record().state(), JobState::registering);
  EXPECT_EQ(training.record().status.reason, "1 of 2 ranks had registered, and ended");
  finish_if_silent(training.job(), training.now_s() + 119, 1'800);
  EXPECT_FALSE(training.record().is_over()) << "the other may still come";
  finish_if_silent(training.job(), training.now_s() + 120, 1'800);
  EXPECT_EQ(training.record().state(), JobState::finished);
  EXPECT_EQ(training.record().status.reason, "ended: 1 of 2 ranks had registered, and ended");
  training.settle();
  EXPECT_THAT(training.reasons("finish"), testing::SizeIs(1));
}

TEST(Job, WaitsForItsRanksAgainOnceAnotherComes) {
  SimulatedJob training(small_job(3));
  const auto come = [&](int rank) {
    (void)training.job().register_rank(training.rank_spec(rank), "key", {}, training.now_s());
  };
  come(0);
  training.job().finish_rank(0, training.now_s());
  come(1);
  EXPECT_EQ(training.record().status.reason, "");
  finish_if_silent(training.job(), training.now_s() + 500, 1'800);
  EXPECT_FALSE(training.record().is_over());
}

TEST(Job, RefusesCellsOfAPlanThatProfilesNothing) {
  SimulatedJob training(small_job(2));
  training.register_all();
  EXPECT_THROW(training.job().add_cells({.rank = 0, .plan_version = 7, .cells = {}, .blocking = {}}, 1), InputError);
}

TEST(Job, FallsBackToFullClocksWhenPlansAreSlowerThanAllowed) {
  SimulatedJob training(small_job(4));
  training.train();
  training.run(3);
  // Everything is slower under plans, for no known reason: no rank stands out.
  training.slow_all(1.04);
  training.run(60);
  EXPECT_THAT(training.reasons("guard"), testing::Not(IsEmpty()));
}

}  // namespace
}  // namespace lowgear::server
