#include "server/fleet/control_plane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/core/error.h"
#include "base/http/message/error.h"
#include "server/fleet/refusal.h"
#include "server/http/api_routes.h"
#include "server/http/event_hub.h"
#include "server/job/job_documents.h"
#include "server/server_fakes.h"
#include "server/simulated_job.h"

namespace lowgear::server {
namespace {

using testing::HasSubstr;

class ControlPlaneTest : public testing::Test {
 protected:
  static protocol::JobSpec spec(const std::string& run = "run") {
    protocol::JobSpec spec = small_job(1);
    spec.run = run;
    return spec;
  }

  static protocol::RankSpec rank() {
    protocol::RankSpec rank;
    rank.instance = "process";
    rank.host = "node";
    rank.clocks_mhz = {1410, 1200, 990, 810};
    rank.follows_plans = true;
    return rank;
  }

  ControlPlaneEnvironment environment() {
    return {.store = &store,
            .planning = &planning,
            .events = &events,
            .activity = &activity,
            .now_s = [this] { return now_s; },
            .calendar_s = {},
            .new_key = [this] { return std::to_string(100'000 + keys++) + "-and-more-up-to-32-chars"; },
            .log = [this](std::string_view text) { log.emplace_back(text); }};
  }

  OnCommitted into(std::optional<StoreOutcome>& outcome) {
    return [&outcome](StoreOutcome told) { outcome = told; };
  }

  /// A job whose rank is registered and which has its first plan, all of it stored.
  const JobRecord& running_job() {
    const JobRecord& job = *plane.register_job(spec()).job;
    (void)plane.register_rank(job, rank());
    store.answer_all(StoreOutcome::committed);
    return job;
  }

  /// Ends the job, which is archived.
  void end(const JobRecord& job) {
    plane.change(job, [&](Job& altered) { altered.finish("over", now_s); });
    store.answer_all(StoreOutcome::committed);
  }

  /// Message of the refusal of another job.
  std::string refusal(const protocol::JobSpec& spec) {
    try {
      (void)plane.register_job(spec);
    } catch (const Refused& error) {
      return error.what();
    }
    return "taken";
  }

  static protocol::RankReports report(std::int64_t iteration) {
    protocol::RankReports reports;
    reports.reports.push_back({.iteration = iteration, .plan_version = 1, .time_s = 1, .compute_s = 1, .energy_j = {}});
    return reports;
  }

  double now_s = 1e9;
  int keys = 0;
  std::vector<std::string> log;
  HeldStore store;
  HeldPlanning planning;
  EventHub events;
  Activity activity;
  ControlPlane plane{environment(), {.jobs = 2, .kept_jobs = 1, .ranks = 10, .silence_s = 100}};
};

TEST_F(ControlPlaneTest, HandsAPlanOutOnlyOnceItIsStored) {
  const JobRecord& job = *plane.register_job(spec()).job;
  store.answer_all(StoreOutcome::committed);
  const auto early = std::make_shared<HeldReply>();
  plane.wait_for_plan(job, 0, 0, 30, pending_plan(early));
  (void)plane.register_rank(job, rank());
  ASSERT_EQ(job.plan_version(), 1);
  const auto late = std::make_shared<HeldReply>();
  plane.wait_for_plan(job, 0, 0, 30, pending_plan(late));
  EXPECT_EQ(early->status(), 0);
  EXPECT_EQ(late->status(), 0);
  store.answer_all(StoreOutcome::committed);
  EXPECT_EQ(early->status(), 200);
  EXPECT_EQ(late->status(), 200);
  EXPECT_THAT(std::string(late->response->text()), HasSubstr(R"("version":1)"));
}

TEST_F(ControlPlaneTest, CountsTheGpuOfTwoJobsOnce) {
  protocol::RankSpec first = rank();
  first.gpu_uuid = "GPU-1";
  protocol::RankSpec second = first;
  second.host = "another-container";
  second.instance = "another";
  const JobRecord& a = *plane.register_job(spec("a")).job;
  const JobRecord& b = *plane.register_job(spec("b")).job;
  (void)plane.register_rank(a, first);
  (void)plane.register_rank(b, second);
  store.answer_all(StoreOutcome::committed);
  const auto train = [&](std::int64_t iteration) {
    now_s += 2;
    for (const JobRecord* job : {&a, &b}) {
      protocol::RankReports reports = report(iteration);
      reports.reports[0].energy_j = 300;
      plane.change(*job, [&](Job& altered) { altered.report(reports, now_s); });
    }
    plane.tick();
  };
  for (std::int64_t iteration = 0; iteration < 3; ++iteration) train(iteration);
  EXPECT_EQ(a.history.kept().back().energy_j, 300);
  EXPECT_FALSE(b.history.kept().back().energy_j);
  EXPECT_EQ(summary_json(b)["problems"][0]["kind"], "gpu_shared");
  EXPECT_EQ(b.history.kept().back().time_s, 1) << "it trains all the same";
  plane.change(a, [&](Job& job) { job.finish("over", now_s); });
  train(3);
  train(4);
  EXPECT_EQ(b.history.kept().back().energy_j, 300);
}

TEST_F(ControlPlaneTest, EndsWaitsWhenTheirTimeIsOver) {
  const JobRecord& job = running_job();
  const auto reply = std::make_shared<HeldReply>();
  plane.wait_for_plan(job, 0, 1, 30, pending_plan(reply));
  now_s += 29;
  plane.tick();
  EXPECT_EQ(reply->status(), 0);
  now_s += 2;
  plane.tick();
  EXPECT_EQ(reply->status(), 204);
}

TEST_F(ControlPlaneTest, AnswersAtOnceWithoutAWaitAndWhileItEnds) {
  const JobRecord& job = running_job();
  const auto no_wait = std::make_shared<HeldReply>();
  plane.wait_for_plan(job, 0, 1, 0, pending_plan(no_wait));
  EXPECT_EQ(no_wait->status(), 204);
  const auto waiting = std::make_shared<HeldReply>();
  plane.wait_for_plan(job, 0, 1, 60, pending_plan(waiting));
  plane.drain();
  EXPECT_EQ(waiting->status(), 204);
  EXPECT_THROW((void)plane.register_job(spec("new")), Refused);
  EXPECT_FALSE(plane.register_job(spec()).created);
}

TEST_F(ControlPlaneTest, TellsWhoSaysTheSameAgainWhatComesOfTheFirst) {
  const JobRecord& job = running_job();
  for (const StoreOutcome outcome : {StoreOutcome::committed, StoreOutcome::failed}) {
    const std::int64_t iteration = job.history.last_iteration(0) + 1;
    std::optional<StoreOutcome> first;
    std::optional<StoreOutcome> again;
    plane.change(job, [&](Job& altered) {
      altered.report(report(iteration), now_s);
      return into(first);
    });
    plane.change(job, [&](Job& altered) {
      altered.report(report(iteration), now_s);
      return into(again);
    });
    EXPECT_FALSE(again);  // the first one is on no disk yet
    store.answer_all(outcome);
    EXPECT_EQ(first, outcome);
    EXPECT_EQ(again == StoreOutcome::committed, outcome == StoreOutcome::committed);
  }
}

TEST_F(ControlPlaneTest, StoresReportsThatWereRefusedOnceTheyAreSentAgain) {
  const JobRecord& job = running_job();
  std::optional<StoreOutcome> outcome;
  plane.change(job, [&](Job& altered) {
    altered.report(report(0), now_s);
    return into(outcome);
  });
  store.answer_all(StoreOutcome::disk_full);
  EXPECT_EQ(outcome, StoreOutcome::disk_full);
  outcome.reset();
  plane.change(job, [&](Job& altered) {
    altered.report(report(0), now_s);
    return into(outcome);
  });
  EXPECT_FALSE(outcome);
  EXPECT_EQ(store.changes.back().reports.size(), 1U);
  store.answer_all(StoreOutcome::committed);
  EXPECT_EQ(outcome, StoreOutcome::committed);
  const std::size_t written = store.changes.size();
  plane.change(job, [&](Job& altered) {
    altered.report(report(0), now_s);
    return into(outcome);
  });
  EXPECT_EQ(store.changes.size(), written);
}

TEST_F(ControlPlaneTest, StoresDecisionsOfRanksThatWereRefusedOnceTheyAreSentAgain) {
  const JobRecord& job = running_job();
  const protocol::RankDecisions reported{.rank = 0,
                                         .work = {},
                                         .decisions = {{.number = 1,
                                                        .age_s = 0,
                                                        .from_iteration = 7,
                                                        .technique = "freezing",
                                                        .change = "adopt",
                                                        .configuration = "x",
                                                        .reason = "y"}}};
  std::optional<StoreOutcome> outcome;
  const auto send = [&] {
    outcome.reset();
    plane.change(job, [&](Job& altered) {
      altered.add_decisions(reported, now_s);
      return into(outcome);
    });
  };
  send();
  store.answer_all(StoreOutcome::disk_full);
  EXPECT_EQ(outcome, StoreOutcome::disk_full);
  send();
  EXPECT_FALSE(outcome);
  ASSERT_EQ(store.changes.back().decisions.size(), 1U);
  EXPECT_THAT(store.changes.back().decisions[0].document, HasSubstr("freezing"));
  EXPECT_THAT(store.changes.back().ranks.at(0).document, HasSubstr(R"("decisions":1)"));
  store.answer_all(StoreOutcome::committed);
  EXPECT_EQ(outcome, StoreOutcome::committed);
  EXPECT_EQ(activity.decisions().at({"freezing", "adopt", "reported"}), 1U);
  send();
  EXPECT_EQ(outcome, StoreOutcome::committed) << "nothing is new";
}

TEST_F(ControlPlaneTest, WritesWhatWasRefusedAgainByItself) {
  std::optional<StoreOutcome> outcome;
  (void)plane.register_job(spec(), [&](const auto& /*registered*/) { return into(outcome); });
  store.answer_all(StoreOutcome::disk_full);
  EXPECT_EQ(outcome, StoreOutcome::disk_full);
  EXPECT_EQ(plane.store().health(), StoreOutcome::disk_full);
  try {
    (void)plane.register_job(spec("new"));
    ADD_FAILURE() << "a new job was taken";
  } catch (const Refused& error) {
    EXPECT_EQ(error.reason(), Refusal::disk_full);
  }
  now_s += 2;
  plane.tick();
  ASSERT_EQ(store.waiting(), 1U);
  EXPECT_EQ(store.changes.back().jobs.size(), 1U);
  store.answer_all(StoreOutcome::committed);
  EXPECT_EQ(plane.store().health(), StoreOutcome::committed);
  EXPECT_THAT(log, testing::ElementsAre(HasSubstr("full"), HasSubstr("space again")));
  EXPECT_TRUE(plane.register_job(spec("new")).created);
}

TEST_F(ControlPlaneTest, TriesLessAndLessOften) {
  const JobRecord& job = *plane.register_job(spec()).job;
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
  const JobRecord& job = *plane.register_job(spec()).job;
  store.answer_all(StoreOutcome::committed);
  (void)plane.register_rank(job, rank());
  const auto reply = std::make_shared<HeldReply>();
  plane.wait_for_plan(job, 0, 0, 30, pending_plan(reply));
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
  EXPECT_THROW((void)plane.register_job(spec("3")), Refused);
  EXPECT_FALSE(plane.register_job(spec("2")).created);
  end(*plane.register_job(spec("2")).job);
  protocol::JobSpec wide = spec("wide");
  wide.parallel.dp = 10;
  EXPECT_THROW((void)plane.register_job(wide), Refused);
  wide.parallel.dp = 9;
  EXPECT_TRUE(plane.register_job(wide).created);
}

TEST_F(ControlPlaneTest, ForgetsTheOldestJobsThatAreOver) {
  for (int i = 0; i < 4; ++i) {
    now_s += 1;
    end(*plane.register_job(spec(std::to_string(i))).job);
  }
  ASSERT_EQ(plane.summaries().size(), 1U);
  EXPECT_EQ(plane.summaries().front()["run"], "3");
  EXPECT_TRUE(plane.register_job(spec("0")).created);
}

TEST_F(ControlPlaneTest, ForgetsTheJobThatEndedFirstNotTheOneThatBeganFirst) {
  const JobRecord& longest = *plane.register_job(spec("longest")).job;
  now_s += 1;
  end(*plane.register_job(spec("short")).job);
  now_s += 1;
  end(longest);
  ASSERT_EQ(plane.summaries().size(), 1U);
  EXPECT_EQ(plane.summaries().front()["run"], "longest");
}

TEST_F(ControlPlaneTest, ForgetsNoJobWhoseRanksMayNotKnowYetThatItIsOver) {
  const JobRecord& job = running_job();
  const std::string id = job.id;
  const std::string key = job.ranks.find(0)->key;
  end(job);
  for (int i = 0; i < 2; ++i) {
    now_s += 1;
    end(*plane.register_job(spec(std::to_string(i))).job);
  }
  ASSERT_EQ(plane.summaries().size(), 2U);
  EXPECT_NE(plane.finished_job(id)->late_rank(0, key), nullptr);
  now_s += kLateRanksS;
  plane.tick();
  ASSERT_EQ(plane.summaries().size(), 1U);
  EXPECT_EQ(plane.summaries().front()["run"], "1");
}

TEST_F(ControlPlaneTest, KeepsNothingButTheSummaryOfAJobThatIsOver) {
  const JobRecord& job = running_job();
  const std::string id = job.id;
  const auto waiting = std::make_shared<HeldReply>();
  plane.wait_for_plan(job, 0, 1, 60, pending_plan(waiting));
  plane.change(job, [&](Job& altered) { altered.finish(kFinishedByRequest, now_s); });
  ASSERT_EQ(store.changes.back().archives.size(), 1U);
  EXPECT_EQ(store.changes.back().jobs.size(), 1U);  // both on the disk, or none
  std::optional<StoreOutcome> behind;
  plane.change(job, [&](Job& /*job*/) { return into(behind); });
  EXPECT_EQ(plane.finished_job(id), nullptr);
  store.answer_all(StoreOutcome::committed);
  EXPECT_EQ(behind, StoreOutcome::committed);
  EXPECT_EQ(waiting->status(), 204);
  ASSERT_NE(plane.finished_job(id), nullptr);
  EXPECT_EQ(plane.finished_job(id)->state, "finished");
  EXPECT_EQ(plane.summaries().at(0)["job"], id);
  EXPECT_EQ(plane.snapshot().jobs.at("finished"), 1);
  try {
    (void)plane.job(id);
    ADD_FAILURE();
  } catch (const Refused& error) {
    EXPECT_EQ(error.reason(), Refusal::job_is_over);
  }
  const ControlPlane::Registered again = plane.register_job(spec());
  EXPECT_FALSE(again.created);
  EXPECT_EQ(again.job, nullptr);
  EXPECT_EQ(again.finished->id, id);
  EXPECT_THROW((void)plane.finished_job("j-unknown"), Refused);
}

TEST_F(ControlPlaneTest, LetsRanksBeThatDoNotKnowYetThatTheirJobIsOver) {
  const JobRecord& job = running_job();
  const std::string id = job.id;
  const std::string key = job.ranks.find(0)->key;
  plane.change(job, [&](Job& altered) {
    altered.report(report(0), now_s);
    altered.finish("over", now_s);
  });
  store.answer_all(StoreOutcome::committed);
  ASSERT_NE(plane.finished_job(id)->late_rank(0, key), nullptr);
  EXPECT_EQ(plane.finished_job(id)->late_rank(0, key)->last_iteration, 0);
  EXPECT_EQ(plane.finished_job(id)->late_rank(0, "another"), nullptr);
  EXPECT_EQ(plane.finished_job(id)->late_rank(1, key), nullptr);
  const auto reply = std::make_shared<HeldReply>();
  plane.let_wait(60, pending_plan(reply));
  now_s += 1;
  plane.tick();
  EXPECT_EQ(reply->status(), 0);
  now_s += 5;
  plane.tick();
  EXPECT_EQ(reply->status(), 204);
  now_s += kLateRanksS;
  plane.tick();
  EXPECT_EQ(plane.finished_job(id)->late_rank(0, key), nullptr);
  const auto last = std::make_shared<HeldReply>();
  plane.let_wait(60, pending_plan(last));
  plane.drain();
  EXPECT_EQ(last->status(), 204);
}

TEST_F(ControlPlaneTest, KeepsAJobThatIsOverUntilItIsArchived) {
  const JobRecord& job = running_job();
  const std::string id = job.id;
  plane.change(job, [&](Job& altered) { altered.finish("over", now_s); });
  store.answer_all(StoreOutcome::disk_full);
  EXPECT_EQ(plane.finished_job(id), nullptr);
  now_s += 2;
  plane.tick();
  EXPECT_EQ(store.changes.back().archives.size(), 1U);
  store.answer_all(StoreOutcome::committed);
  EXPECT_NE(plane.finished_job(id), nullptr);
}

TEST_F(ControlPlaneTest, CountsAJobThatIsOverUntilItIsArchived) {
  for (const char* run : {"1", "2"}) {
    const JobRecord& job = *plane.register_job(spec(run)).job;
    plane.change(job, [&](Job& altered) { altered.finish("over", now_s); });
    store.answer_all(StoreOutcome::failed);
  }
  EXPECT_THAT(refusal(spec("3")),
              testing::AllOf(HasSubstr("the most that the server accepts"), HasSubstr("2 of them are finished"),
                             HasSubstr("the server's log says why")));
  now_s += 2;
  plane.tick();
  store.answer_all(StoreOutcome::committed);
  EXPECT_EQ(refusal(spec("3")), "taken");
}

TEST_F(ControlPlaneTest, MakesAnArchiveOnlyAsOftenAsTheStoreIsTriedAgain) {
  const JobRecord& job = running_job();
  plane.change(job, [&](Job& altered) { altered.finish("over", now_s); });
  store.answer_all(StoreOutcome::failed);
  const std::size_t written = store.changes.size();
  std::optional<StoreOutcome> outcome;
  for (int i = 0; i < 10; ++i) {
    plane.change(job, [&](Job& /*job*/) { return into(outcome); });
    store.answer_all(StoreOutcome::failed);
    EXPECT_EQ(outcome, StoreOutcome::failed);
  }
  for (std::size_t i = written; i < store.changes.size(); ++i) EXPECT_TRUE(store.changes[i].archives.empty());
  const std::string id = job.id;
  now_s += 100;
  plane.tick();
  store.answer_all(StoreOutcome::committed);
  EXPECT_NE(plane.finished_job(id), nullptr);
}

TEST_F(ControlPlaneTest, LetsRanksWaitWhileTheirJobThatIsOverIsNotArchived) {
  const JobRecord& job = running_job();
  plane.change(job, [&](Job& altered) { altered.finish("over", now_s); });
  store.answer_all(StoreOutcome::failed);
  const auto reply = std::make_shared<HeldReply>();
  plane.wait_for_plan(job, 0, 1, 60, pending_plan(reply));
  plane.tick();
  EXPECT_EQ(reply->status(), 0);  // answered at once, the rank would ask again at once
  now_s += 6;
  plane.tick();
  EXPECT_EQ(reply->status(), 204);
}

TEST_F(ControlPlaneTest, KnowsJobsThatAreOverAfterARestart) {
  StoreContents contents;
  contents.finished = {{.id = "j-2",
                        .run = "run",
                        .created_s = 2,
                        .summary = R"({"job":"j-2","state":"finished","reason":"finished by request"})"},
                       {.id = "j-3", .run = "other", .created_s = 3, .summary = "damaged"},
                       {.id = "j-1", .run = "run", .created_s = 1, .summary = R"({"job":"j-1","state":"finished"})"}};
  ControlPlane restored(environment(), {});
  restored.restore(std::move(contents));
  ASSERT_EQ(restored.summaries().size(), 2U);
  EXPECT_EQ(restored.summaries()[0]["job"], "j-2");
  EXPECT_EQ(restored.finished_job("j-1")->state, "finished");
  EXPECT_EQ(restored.register_job(spec()).finished->id, "j-2");
  contents.finished = {{.id = "j-2", .run = "run", .created_s = 2, .summary = R"({"job":"j-2","state":"finished"})"}};
  ControlPlane again(environment(), {});
  again.restore(std::move(contents));
  EXPECT_TRUE(again.register_job(spec()).created);
  EXPECT_THAT(log, testing::ElementsAre(HasSubstr("j-3: left out")));
}

TEST_F(ControlPlaneTest, ArchivesJobsThatAreOverAfterARestart) {
  const JobRecord& job = running_job();
  const std::string id = job.id;
  StoreContents contents;
  plane.change(job, [&](Job& altered) {
    altered.finish("over", now_s);
    contents.jobs = altered.take_changes().store.jobs;
  });
  ControlPlane restored(environment(), {});
  restored.restore(std::move(contents));
  EXPECT_EQ(restored.summaries().at(0)["run"], "run");
  ASSERT_EQ(store.changes.back().archives.size(), 1U);
  EXPECT_EQ(store.changes.back().archives[0].job, id);
  store.answer_all(StoreOutcome::busy);
  now_s += 2;
  restored.tick();
  ASSERT_EQ(store.waiting(), 1U);  // tried again, without another restart
  ASSERT_EQ(store.changes.back().archives.size(), 1U);
  store.answer_all(StoreOutcome::committed);
  ASSERT_NE(restored.finished_job(id), nullptr);
  EXPECT_EQ(restored.summaries().at(0)["run"], "run");
}

TEST_F(ControlPlaneTest, KnowsARunByItsNewestJobAfterARestart) {
  const JobRecord& job = running_job();
  StoreContents contents;
  plane.change(job, [&](Job& altered) {
    altered.finish(kFinishedByRequest, now_s);
    contents.jobs = altered.take_changes().store.jobs;
  });
  const std::string id = job.id;
  const auto known_by = [&](double archived_created_s) {
    contents.finished = {{.id = "j-archived",
                          .run = "run",
                          .created_s = archived_created_s,
                          .summary = R"({"job":"j-archived","state":"finished","reason":"finished by request"})"}};
    ControlPlane restored(environment(), {});
    restored.restore(contents);
    store.answer_all(StoreOutcome::committed);
    return restored.register_job(spec()).finished->id;
  };
  EXPECT_EQ(known_by(2e9), "j-archived");
  EXPECT_EQ(known_by(1), id);
}

TEST_F(ControlPlaneTest, LeavesDamagedRowsOutAndSaysSo) {
  const JobRecord& job = running_job();
  StoreContents contents;
  for (int i = 0; i < 3; ++i) {
    plane.change(job, [&](Job& altered) { altered.report(report(i), now_s); });
  }
  for (StoreChange& change : store.changes) {
    if (!change.jobs.empty()) contents.jobs = change.jobs;
    if (!change.ranks.empty()) contents.ranks = change.ranks;
    for (StoredPlan& row : change.plans) contents.plans.push_back(row);
    for (StoredReports& row : change.reports) contents.reports.push_back(row);
  }
  ASSERT_EQ(contents.reports.size(), 3U);
  contents.reports[1].document[0] ^= 1;
  contents.reports[2].rank = 7;
  ControlPlane restored(environment(), {});
  restored.restore(std::move(contents));
  EXPECT_EQ(restored.job(job.id).history.last_iteration(0), 0);
  EXPECT_THAT(log, testing::ElementsAre(HasSubstr("reports of rank 0 from iteration 1 on"),
                                        HasSubstr("reports of rank 7 from iteration 2 on")));
}

TEST_F(ControlPlaneTest, TakesNoJobAboveItsLimitsOfSize) {
  protocol::JobSpec large = spec("large");
  large.microbatches = 500'001;
  try {
    (void)plane.register_job(large);
    ADD_FAILURE();
  } catch (const Refused& error) {
    EXPECT_EQ(error.reason(), Refusal::too_large);
    EXPECT_THAT(error.what(), HasSubstr("1000002"));
    EXPECT_THAT(error.what(), HasSubstr("max_job_units"));
  }
  ControlPlane small(environment(), {.job_units = 1'000, .units = 25});
  EXPECT_TRUE(small.register_job(spec("1")).created);  // 12 units each
  EXPECT_TRUE(small.register_job(spec("2")).created);
  try {
    (void)small.register_job(spec("3"));
    ADD_FAILURE();
  } catch (const Refused& error) {
    EXPECT_EQ(error.reason(), Refusal::full);
  }
  const JobRecord& over = *small.register_job(spec("1")).job;
  small.change(over, [&](Job& altered) { altered.finish("over", now_s); });
  store.answer_all(StoreOutcome::committed);
  EXPECT_TRUE(small.register_job(spec("3")).created);
}

TEST_F(ControlPlaneTest, TellsHowItsStoreDoes) {
  const JobRecord& job = running_job();
  for (const StoreOutcome outcome : {StoreOutcome::busy, StoreOutcome::failed, StoreOutcome::committed}) {
    plane.change(job, [&](Job& altered) {
      (void)altered.set(StragglerTarget{0, 2 + static_cast<double>(outcome)}, now_s);
    });
    store.answer_all(outcome);
    EXPECT_EQ(plane.store().health(), outcome);
  }
}

TEST_F(ControlPlaneTest, FindsOutThatItsStoreWorksAgainThoughNoJobWrites) {
  plane.tick();
  EXPECT_EQ(store.waiting(), 0U);  // nothing to find out
  const Json body = Json::parse(R"({"points":[[0,500]],"rules":[{"above":400,"slowdown_pct":10}]})");
  plane.signals().put("carbon", JsonView(body, "body"), {});
  store.answer_all(StoreOutcome::failed);
  for (const StoreOutcome outcome : {StoreOutcome::failed, StoreOutcome::committed}) {
    EXPECT_EQ(plane.store().health(), StoreOutcome::failed);
    now_s += 10;
    plane.tick();
    ASSERT_EQ(store.waiting(), 1U);
    EXPECT_FALSE(store.changes.back().empty());
    plane.tick();
    EXPECT_EQ(store.waiting(), 1U);  // one at a time
    store.answer_all(outcome);
  }
  EXPECT_EQ(plane.store().health(), StoreOutcome::committed);
  now_s += 100;
  plane.tick();
  EXPECT_EQ(store.waiting(), 0U);
}

TEST_F(ControlPlaneTest, NamesWhatARegistrationDisagreesIn) {
  (void)plane.register_job(spec());
  protocol::JobSpec other = spec();
  other.microbatches = 7;
  try {
    (void)plane.register_job(other);
    ADD_FAILURE();
  } catch (const Refused& error) {
    EXPECT_EQ(error.reason(), Refusal::disagrees);
    EXPECT_THAT(error.what(), HasSubstr("microbatches"));
  }
}

TEST_F(ControlPlaneTest, BeginsAnotherJobOfARunThatItsRanksHaveLeft) {
  const std::string first = running_job().id;
  protocol::JobSpec larger = spec();
  larger.parallel.dp = 2;
  now_s += 29;
  EXPECT_THAT(refusal(larger), HasSubstr("run \"run\" is registered with another parallel"));
  const JobRecord& left = *plane.register_job(spec()).job;
  EXPECT_EQ(left.id, first);
  protocol::RankSpec another = rank();
  another.instance = "of the next start";
  EXPECT_EQ(plane.register_rank(left, another).outcome, RankRegistration::Outcome::taken);
  now_s += 2;
  const ControlPlane::Registered again = plane.register_job(larger);
  EXPECT_TRUE(again.created);
  EXPECT_NE(again.job->id, first);
  EXPECT_EQ(plane.job(first).state(), JobState::finished);
  EXPECT_EQ(plane.job(first).status.reason, "its run was started again");
  store.answer_all(StoreOutcome::committed);
  EXPECT_EQ(plane.register_job(larger).job->id, again.job->id);
}

TEST_F(ControlPlaneTest, KeepsTheJobOfAProcessThatWasCutOff) {
  const std::string first = running_job().id;
  now_s += 300;
  EXPECT_EQ(plane.register_job(spec(), {}, rank().instance).job->id, first);
  EXPECT_EQ(plane.register_rank(plane.job(first), rank()).outcome, RankRegistration::Outcome::known);
  EXPECT_NE(plane.job(first).state(), JobState::finished);
  now_s += 300;
  EXPECT_NE(plane.register_job(spec(), {}, "of the next start").job->id, first);
  EXPECT_EQ(plane.job(first).status.reason, kStartedAgain);
}

TEST_F(ControlPlaneTest, BeginsAnotherJobOfARunThoughItHadNoRoomAtFirst) {
  const JobRecord& first = *plane.register_job(spec()).job;
  (void)plane.register_job(spec("other"));
  now_s += 31;
  EXPECT_THAT(refusal(spec()), HasSubstr("the most that the server accepts"));
  EXPECT_EQ(first.status.reason, kStartedAgain);
  store.answer_all(StoreOutcome::committed);
  EXPECT_TRUE(plane.register_job(spec()).created);
}

TEST_F(ControlPlaneTest, BeginsAnotherJobWhereARankOfTheNextStartIsAmongThoseOfTheLast) {
  protocol::JobSpec two = spec();
  two.parallel.dp = 2;
  const JobRecord& job = *plane.register_job(two).job;
  (void)plane.register_rank(job, rank());
  now_s += 20;
  protocol::RankSpec second = rank();
  second.rank = second.dp_rank = 1;
  second.instance = "of the next start";
  (void)plane.register_rank(job, second);
  protocol::RankSpec first = rank();
  first.instance = second.instance;
  EXPECT_EQ(plane.register_rank(job, first).outcome, RankRegistration::Outcome::taken);
  EXPECT_FALSE(job.is_over());
  now_s += 11;
  plane.wait_for_plan(job, 1, job.plan_version(), 20, pending_plan(std::make_shared<HeldReply>()));
  EXPECT_EQ(plane.register_rank(job, first).outcome, RankRegistration::Outcome::taken);
  EXPECT_EQ(job.status.reason, kStartedAgain);
  const std::string over = job.id;
  EXPECT_TRUE(plane.register_job(two).created);
  store.answer_all(StoreOutcome::committed);
  ASSERT_NE(plane.finished_job(over), nullptr);
  EXPECT_TRUE(plane.has_another_job(*plane.finished_job(over))) << "the second rank has to register again";
}

TEST_F(ControlPlaneTest, KeepsTheRunOfAJobThatWasFinishedByRequest) {
  for (const auto why : {kFinishedByRequest, std::string_view("no rank has sent a request")}) {
    protocol::JobSpec other = spec();
    other.run = why;
    const JobRecord& job = *plane.register_job(other).job;
    plane.change(job, [&](Job& altered) { altered.finish(why, now_s); });
    EXPECT_EQ(plane.register_job(other).created, why != kFinishedByRequest);
    store.answer_all(StoreOutcome::committed);
  }
}

TEST_F(ControlPlaneTest, KeepsTheJobOfARunWhileARankWaitsForPlans) {
  const JobRecord& job = running_job();
  for (int wait = 0; wait < 3; ++wait) {
    now_s += 20;
    plane.wait_for_plan(job, 0, job.plan_version(), 20, pending_plan(std::make_shared<HeldReply>()));
  }
  EXPECT_EQ(plane.register_job(spec()).job, &job);
}

TEST_F(ControlPlaneTest, BeginsAnotherJobOfARunWhoseRanksHaveAllEnded) {
  protocol::JobSpec larger = spec();
  larger.microbatches = 2 * spec().microbatches;
  std::set<std::string> jobs;
  for (const bool is_archived : {false, true}) {
    const JobRecord& job = *plane.register_job(is_archived ? larger : spec()).job;
    jobs.insert(job.id);
    (void)plane.register_rank(job, rank());
    plane.change(job, [&](Job& altered) { altered.finish_rank(0, now_s); });
    if (is_archived) store.answer_all(StoreOutcome::committed);
  }
  jobs.insert(plane.register_job(spec()).job->id);
  EXPECT_EQ(jobs.size(), 3U);
}

TEST_F(ControlPlaneTest, TakesNoNewRankOfAJobThatIsOver) {
  protocol::JobSpec two = spec();
  two.parallel.dp = 2;
  const JobRecord& job = *plane.register_job(two).job;
  (void)plane.register_rank(job, rank());
  plane.change(job, [&](Job& altered) { altered.finish("by request", now_s); });
  EXPECT_EQ(plane.register_rank(job, rank()).outcome, RankRegistration::Outcome::known);
  protocol::RankSpec other = rank();
  other.rank = other.dp_rank = 1;
  EXPECT_THROW((void)plane.register_rank(job, other), Refused);
  EXPECT_EQ(job.state(), JobState::finished);
}

TEST_F(ControlPlaneTest, EndsAJobOfWhichNobodyIsHeard) {
  const JobRecord& job = running_job();
  now_s += 99;
  plane.tick();
  EXPECT_FALSE(job.is_over());
  EXPECT_TRUE(planning.forgotten.empty());
  now_s += 2;
  plane.tick();
  EXPECT_TRUE(job.is_over());
  plane.tick();
  EXPECT_THAT(planning.forgotten, testing::ElementsAre(job.id));
}

TEST_F(ControlPlaneTest, SurvivesAClockThatGoesBack) {
  const JobRecord& job = running_job();
  const auto reply = std::make_shared<HeldReply>();
  plane.wait_for_plan(job, 0, 1, 1, pending_plan(reply));
  now_s -= 1e6;
  plane.tick();
  plane.change(job, [&](Job& altered) {
    altered.report(report(0), now_s);
    altered.report(report(1), now_s);
  });
  store.answer_all(StoreOutcome::committed);
  EXPECT_FALSE(job.is_over());
  EXPECT_EQ(job.history.last_iteration(0), 1);
}

TEST_F(ControlPlaneTest, FollowsASignalAndSaysSo) {
  const JobRecord& job = running_job();
  const JobState before = job.state();
  const Json body = Json::parse(R"({"points":[[0,500],[4e9,500]],"rules":[{"above":400,"slowdown_pct":10}]})");
  std::optional<StoreOutcome> outcome;
  plane.signals().put("carbon", JsonView(body, "body"), into(outcome));
  EXPECT_FALSE(outcome);
  store.answer_all(StoreOutcome::committed);
  EXPECT_EQ(outcome, StoreOutcome::committed);
  const Json shown = plane.signals().to_json()["signals"][0];
  EXPECT_EQ(shown["name"], "carbon");
  EXPECT_EQ(shown["slowdown_pct"], 10);
  EXPECT_EQ(job.state(), before);
  const Json wrong = Json::parse(R"({"points":[[0]],"rules":[]})");
  EXPECT_THROW(plane.signals().put("x", JsonView(wrong, "body"), {}), InputError);
  const Json in_ms = Json::parse(R"({"points":[[1790000000000,1]],"rules":[{"above":4,"slowdown_pct":1}]})");
  EXPECT_THROW(plane.signals().put("x", JsonView(in_ms, "body"), {}), InputError);
}

/// The clock of the machine is set while the server runs: signals and timetables go by it, waits and jobs do not.
TEST_F(ControlPlaneTest, TimetablesGoByTheCalendar) {
  double calendar_s = 1e9;
  ControlPlaneEnvironment environment = this->environment();
  environment.calendar_s = [&calendar_s] { return calendar_s; };
  ControlPlane calendar_plane(environment, {.jobs = 2, .kept_jobs = 1, .ranks = 10, .silence_s = 100});
  const Json signal = Json::parse(R"({"points":[[0,1],[2e9,500]],"rules":[{"above":400,"slowdown_pct":10}]})");
  const Json budget = Json::parse(R"({"points":[[0,3000],[2e9,2000]]})");
  calendar_plane.signals().put("carbon", JsonView(signal, "body"), {});
  calendar_plane.budgets().put("row", JsonView(budget, "body"), {});
  store.answer_all(StoreOutcome::committed);
  const auto shown = [&] {
    return std::pair(calendar_plane.signals().to_json()["signals"][0]["slowdown_pct"].get<double>(),
                     calendar_plane.budgets().to_json()["budgets"][0]["watts_now"].get<double>());
  };
  EXPECT_EQ(shown(), std::pair(0.0, 3000.0));
  calendar_s = 2e9;
  now_s += 1;
  calendar_plane.tick();
  EXPECT_EQ(shown(), std::pair(10.0, 2000.0));
}

TEST_F(ControlPlaneTest, FollowsNoSignalThatIsNotStored) {
  running_job();
  const Json body = Json::parse(R"({"points":[[0,500],[4e9,500]],"rules":[{"above":400,"slowdown_pct":10}]})");
  std::optional<StoreOutcome> outcome;
  plane.signals().put("carbon", JsonView(body, "body"), into(outcome));
  EXPECT_TRUE(plane.signals().to_json()["signals"].empty());
  store.answer_all(StoreOutcome::disk_full);
  EXPECT_EQ(outcome, StoreOutcome::disk_full);
  EXPECT_TRUE(plane.signals().to_json()["signals"].empty());
  EXPECT_EQ(plane.store().health(), StoreOutcome::disk_full);
}

TEST_F(ControlPlaneTest, RemovesASignalOnceThatIsStored) {
  const JobRecord& job = running_job();
  const Json body = Json::parse(R"({"points":[[0,500],[4e9,500]],"rules":[{"above":400,"slowdown_pct":10}]})");
  EXPECT_THROW(plane.signals().remove("carbon", {}), Refused);
  plane.signals().put("carbon", JsonView(body, "body"), {});
  store.answer_all(StoreOutcome::committed);
  std::optional<StoreOutcome> outcome;
  plane.signals().remove("carbon", into(outcome));
  EXPECT_EQ(plane.signals().to_json()["signals"].size(), 1);
  EXPECT_EQ(summary_json(job)["guard_limit_pct"], 12);
  store.answer_all(StoreOutcome::committed);
  EXPECT_EQ(outcome, StoreOutcome::committed);
  EXPECT_TRUE(plane.signals().to_json()["signals"].empty());
  EXPECT_EQ(summary_json(job)["guard_limit_pct"], 2);
}

TEST_F(ControlPlaneTest, AnswersForAJobThatWasForgottenMeanwhile) {
  const JobRecord& job = running_job();
  std::optional<StoreOutcome> outcome;
  plane.change(job, [&](Job& altered) {
    altered.report(report(0), now_s);
    return into(outcome);
  });
  plane.change(job, [&](Job& altered) { altered.finish("over", now_s); });
  now_s += 1;
  end(*plane.register_job(spec("another")).job);
  EXPECT_EQ(outcome, StoreOutcome::committed);
}

}  // namespace
}  // namespace lowgear::server
