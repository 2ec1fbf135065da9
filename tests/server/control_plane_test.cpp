#include "server/control_plane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "http/error.h"
#include "server/server_fakes.h"
#include "server/simulated_job.h"

namespace lowgear {
namespace {

using testing::HasSubstr;

class ControlPlaneTest : public testing::Test {
 protected:
  static JobSpec spec(const std::string& run = "run") {
    JobSpec spec = small_job(1);
    spec.run = run;
    return spec;
  }

  static RankSpec rank() {
    RankSpec rank;
    rank.instance = "process";
    rank.host = "node";
    rank.clocks_mhz = {1410, 1200, 990, 810};
    rank.follows_plans = true;
    return rank;
  }

  Settled into(std::optional<StoreOutcome>& outcome) {
    return [&outcome](StoreOutcome told) { outcome = told; };
  }

  /// A job whose rank is registered and which has its first plan, all of it stored.
  Job& running_job() {
    Job& job = *plane.register_job(spec()).job;
    plane.settle(job);
    (void)plane.register_rank(job, rank());
    plane.settle(job);
    store.answer_all(StoreOutcome::committed);
    return job;
  }

  static RankReports report(std::int64_t iteration) {
    RankReports reports;
    reports.reports.push_back({.iteration = iteration, .plan_version = 1, .time_s = 1, .compute_s = 1, .energy_j = {}});
    return reports;
  }

  double now_s = 1e9;
  int keys = 0;
  std::vector<std::string> log;
  HeldStore store;
  HeldPlanning planning;
  ControlPlane plane{{.store = &store,
                      .planning = &planning,
                      .now_s = [this] { return now_s; },
                      .new_key = [this] { return std::to_string(100'000 + keys++) + "-and-more-up-to-32-chars"; },
                      .log = [this](std::string_view text) { log.emplace_back(text); }},
                     {.jobs = 2, .kept_jobs = 1, .ranks = 10, .silence_s = 100}};
};

TEST_F(ControlPlaneTest, HandsAPlanOutOnlyOnceItIsStored) {
  Job& job = *plane.register_job(spec()).job;
  plane.settle(job);
  store.answer_all(StoreOutcome::committed);
  const auto early = std::make_shared<HeldReply>();
  plane.wait_for_plan(job, 0, 0, 30, early);
  (void)plane.register_rank(job, rank());
  plane.settle(job);
  ASSERT_EQ(job.plan_version(), 1);
  const auto late = std::make_shared<HeldReply>();
  plane.wait_for_plan(job, 0, 0, 30, late);
  EXPECT_EQ(early->status(), 0);
  EXPECT_EQ(late->status(), 0);
  store.answer_all(StoreOutcome::committed);
  EXPECT_EQ(early->status(), 200);
  EXPECT_EQ(late->status(), 200);
  EXPECT_THAT(std::string(late->response->text()), HasSubstr(R"("version":1)"));
}

TEST_F(ControlPlaneTest, EndsWaitsWhenTheirTimeIsOver) {
  Job& job = running_job();
  const auto reply = std::make_shared<HeldReply>();
  plane.wait_for_plan(job, 0, 1, 30, reply);
  now_s += 29;
  plane.tick();
  EXPECT_EQ(reply->status(), 0);
  now_s += 2;
  plane.tick();
  EXPECT_EQ(reply->status(), 204);
}

TEST_F(ControlPlaneTest, AnswersAtOnceWithoutAWaitAndWhileItEnds) {
  Job& job = running_job();
  const auto no_wait = std::make_shared<HeldReply>();
  plane.wait_for_plan(job, 0, 1, 0, no_wait);
  EXPECT_EQ(no_wait->status(), 204);
  const auto waiting = std::make_shared<HeldReply>();
  plane.wait_for_plan(job, 0, 1, 60, waiting);
  plane.drain();
  EXPECT_EQ(waiting->status(), 204);
  EXPECT_THROW((void)plane.register_job(spec("new")), HttpError);
  EXPECT_FALSE(plane.register_job(spec()).created);
}

TEST_F(ControlPlaneTest, TellsWhoSaysTheSameAgainWhatComesOfTheFirst) {
  Job& job = running_job();
  for (const StoreOutcome outcome : {StoreOutcome::committed, StoreOutcome::failed}) {
    const std::int64_t iteration = job.last_iteration(0) + 1;
    std::optional<StoreOutcome> first;
    std::optional<StoreOutcome> again;
    job.report(report(iteration), now_s);
    plane.settle(job, into(first));
    job.report(report(iteration), now_s);
    plane.settle(job, into(again));
    EXPECT_FALSE(again);  // the first one is on no disk yet
    store.answer_all(outcome);
    EXPECT_EQ(first, outcome);
    EXPECT_EQ(again == StoreOutcome::committed, outcome == StoreOutcome::committed);
  }
}

TEST_F(ControlPlaneTest, StoresReportsThatWereRefusedOnceTheyAreSentAgain) {
  Job& job = running_job();
  std::optional<StoreOutcome> outcome;
  job.report(report(0), now_s);
  plane.settle(job, into(outcome));
  store.answer_all(StoreOutcome::disk_full);
  EXPECT_EQ(outcome, StoreOutcome::disk_full);
  outcome.reset();
  job.report(report(0), now_s);
  plane.settle(job, into(outcome));
  EXPECT_FALSE(outcome);
  EXPECT_EQ(store.changes.back().reports.size(), 1U);
  store.answer_all(StoreOutcome::committed);
  EXPECT_EQ(outcome, StoreOutcome::committed);
  const std::size_t written = store.changes.size();
  job.report(report(0), now_s);
  plane.settle(job, into(outcome));
  EXPECT_EQ(store.changes.size(), written);
}

TEST_F(ControlPlaneTest, WritesWhatWasRefusedAgainByItself) {
  Job& job = *plane.register_job(spec()).job;
  std::optional<StoreOutcome> outcome;
  plane.settle(job, into(outcome));
  store.answer_all(StoreOutcome::disk_full);
  EXPECT_EQ(outcome, StoreOutcome::disk_full);
  EXPECT_EQ(plane.store_health(), StoreOutcome::disk_full);
  try {
    (void)plane.register_job(spec("new"));
    ADD_FAILURE() << "a new job was taken";
  } catch (const HttpError& error) {
    EXPECT_EQ(error.code(), "disk_full");
  }
  now_s += 2;
  plane.tick();
  ASSERT_EQ(store.waiting(), 1U);
  EXPECT_EQ(store.changes.back().jobs.size(), 1U);
  store.answer_all(StoreOutcome::committed);
  EXPECT_EQ(plane.store_health(), StoreOutcome::committed);
  EXPECT_THAT(log, testing::ElementsAre(HasSubstr("full"), HasSubstr("room")));
  EXPECT_TRUE(plane.register_job(spec("new")).created);
}

TEST_F(ControlPlaneTest, TriesLessAndLessOften) {
  Job& job = *plane.register_job(spec()).job;
  plane.settle(job);
  int tries = 0;
  for (int tick = 0; tick < 6000; ++tick) {  // ten minutes
    while (store.waiting() > 0) {
      ++tries;
      store.answer(StoreOutcome::failed);
    }
    now_s += 0.1;
    plane.tick();
    if (job.is_over()) break;
  }
  EXPECT_LT(tries, 20);
  EXPECT_GT(tries, 3);
}

TEST_F(ControlPlaneTest, FollowsAPlanThatCouldNotBeStored) {
  Job& job = *plane.register_job(spec()).job;
  plane.settle(job);
  store.answer_all(StoreOutcome::committed);
  (void)plane.register_rank(job, rank());
  plane.settle(job);
  const auto reply = std::make_shared<HeldReply>();
  plane.wait_for_plan(job, 0, 0, 30, reply);
  store.answer_all(StoreOutcome::disk_full);
  EXPECT_EQ(reply->status(), 200);
  now_s += 2;
  plane.tick();
  ASSERT_FALSE(store.changes.empty());
  EXPECT_EQ(store.changes.back().plans.size(), 1U);
  EXPECT_EQ(store.changes.back().ranks.size(), 1U);
}

TEST_F(ControlPlaneTest, TakesNoMoreJobsAndRanksThanItsLimits) {
  (void)plane.register_job(spec("1"));
  (void)plane.register_job(spec("2"));
  EXPECT_THROW((void)plane.register_job(spec("3")), HttpError);
  EXPECT_FALSE(plane.register_job(spec("2")).created);
  plane.job(plane.jobs().front()->id()).finish("over", now_s);
  JobSpec wide = spec("wide");
  wide.parallel.dp = 10;
  EXPECT_THROW((void)plane.register_job(wide), HttpError);
  wide.parallel.dp = 9;
  EXPECT_TRUE(plane.register_job(wide).created);
}

TEST_F(ControlPlaneTest, ForgetsTheOldestJobsThatAreOver) {
  for (int i = 0; i < 4; ++i) {
    now_s += 1;
    Job& job = *plane.register_job(spec(std::to_string(i))).job;
    job.finish("over", now_s);
    plane.settle(job);
  }
  store.answer_all(StoreOutcome::committed);  // also of jobs that are gone
  EXPECT_LE(plane.jobs().size(), 2U);
  EXPECT_EQ(plane.jobs().front()->spec().run, "3");
}

TEST_F(ControlPlaneTest, TellsHowItsStoreDoes) {
  Job& job = running_job();
  for (const StoreOutcome outcome : {StoreOutcome::busy, StoreOutcome::failed, StoreOutcome::committed}) {
    (void)job.set_straggler(0, 2 + static_cast<double>(outcome), now_s);
    plane.settle(job);
    store.answer_all(outcome);
    EXPECT_EQ(plane.store_health(), outcome);
  }
}

TEST_F(ControlPlaneTest, NamesWhatARegistrationDisagreesIn) {
  (void)plane.register_job(spec());
  JobSpec other = spec();
  other.microbatches = 7;
  try {
    (void)plane.register_job(other);
    ADD_FAILURE();
  } catch (const HttpError& error) {
    EXPECT_EQ(error.status(), 409);
    EXPECT_THAT(error.what(), HasSubstr("microbatches"));
  }
}

TEST_F(ControlPlaneTest, TakesNoNewRankOfAJobThatIsOver) {
  JobSpec two = spec();
  two.parallel.dp = 2;
  Job& job = *plane.register_job(two).job;
  (void)plane.register_rank(job, rank());
  job.finish("by request", now_s);
  EXPECT_EQ(plane.register_rank(job, rank()).outcome, RankRegistration::Outcome::known);
  RankSpec other = rank();
  other.rank = other.dp_rank = 1;
  EXPECT_THROW((void)plane.register_rank(job, other), HttpError);
  EXPECT_EQ(job.state(), JobState::finished);
}

TEST_F(ControlPlaneTest, EndsAJobOfWhichNobodyIsHeard) {
  Job& job = running_job();
  now_s += 99;
  plane.tick();
  EXPECT_FALSE(job.is_over());
  EXPECT_TRUE(planning.forgotten.empty());
  now_s += 2;
  plane.tick();
  EXPECT_TRUE(job.is_over());
  plane.tick();
  EXPECT_THAT(planning.forgotten, testing::ElementsAre(job.id()));
}

TEST_F(ControlPlaneTest, SurvivesAClockThatGoesBack) {
  Job& job = running_job();
  const auto reply = std::make_shared<HeldReply>();
  plane.wait_for_plan(job, 0, 1, 1, reply);
  now_s -= 1e6;
  plane.tick();
  job.report(report(0), now_s);
  job.report(report(1), now_s);
  plane.settle(job);
  store.answer_all(StoreOutcome::committed);
  EXPECT_FALSE(job.is_over());
  EXPECT_EQ(job.last_iteration(0), 1);
}

TEST_F(ControlPlaneTest, FollowsASignalAndSaysSo) {
  Job& job = running_job();
  const Json body = Json::parse(R"({"points":[[0,500],[4e9,500]],"rules":[{"above":400,"slowdown_pct":10}]})");
  std::optional<StoreOutcome> outcome;
  plane.put_signal("carbon", JsonView(body, "body"), into(outcome));
  EXPECT_FALSE(outcome);
  store.answer_all(StoreOutcome::committed);
  EXPECT_EQ(outcome, StoreOutcome::committed);
  const Json shown = plane.signals_json()["signals"][0];
  EXPECT_EQ(shown["name"], "carbon");
  EXPECT_EQ(shown["slowdown_pct"], 10);
  EXPECT_EQ(job.state(), JobState::profiling);
  const Json wrong = Json::parse(R"({"points":[[0]],"rules":[]})");
  EXPECT_THROW(plane.put_signal("x", JsonView(wrong, "body"), {}), InputError);
}

TEST_F(ControlPlaneTest, FollowsNoSignalThatIsNotStored) {
  running_job();
  const Json body = Json::parse(R"({"points":[[0,500],[4e9,500]],"rules":[{"above":400,"slowdown_pct":10}]})");
  std::optional<StoreOutcome> outcome;
  plane.put_signal("carbon", JsonView(body, "body"), into(outcome));
  EXPECT_TRUE(plane.signals_json()["signals"].empty());
  store.answer_all(StoreOutcome::disk_full);
  EXPECT_EQ(outcome, StoreOutcome::disk_full);
  EXPECT_TRUE(plane.signals_json()["signals"].empty());
  EXPECT_EQ(plane.store_health(), StoreOutcome::disk_full);
}

TEST_F(ControlPlaneTest, RemovesASignalOnceThatIsStored) {
  Job& job = running_job();
  const Json body = Json::parse(R"({"points":[[0,500],[4e9,500]],"rules":[{"above":400,"slowdown_pct":10}]})");
  EXPECT_THROW(plane.remove_signal("carbon", {}), HttpError);
  plane.put_signal("carbon", JsonView(body, "body"), {});
  store.answer_all(StoreOutcome::committed);
  std::optional<StoreOutcome> outcome;
  plane.remove_signal("carbon", into(outcome));
  EXPECT_EQ(plane.signals_json()["signals"].size(), 1);
  EXPECT_EQ(job.summary()["guard_limit_pct"], 12);
  store.answer_all(StoreOutcome::committed);
  EXPECT_EQ(outcome, StoreOutcome::committed);
  EXPECT_TRUE(plane.signals_json()["signals"].empty());
  EXPECT_EQ(job.summary()["guard_limit_pct"], 2);
}

TEST_F(ControlPlaneTest, AnswersForAJobThatWasForgottenMeanwhile) {
  Job& job = running_job();
  std::optional<StoreOutcome> outcome;
  job.report(report(0), now_s);
  plane.settle(job, into(outcome));
  job.finish("over", now_s);
  plane.settle(job);
  for (int i = 0; i < 3; ++i) {
    now_s += 1;
    plane.register_job(spec(std::to_string(i))).job->finish("over", now_s);
  }
  store.answer_all(StoreOutcome::committed);
  EXPECT_EQ(outcome, StoreOutcome::committed);
}

}  // namespace
}  // namespace lowgear
