#include "server/perseus/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/perseus/test_support.h"

namespace lowgear::server::perseus {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class PerseusServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    start(read_perseus_settings("InstructionProfiler", R"({"minimum_power_state": 1300})", "frequency"));
  }

  void start(const Settings& settings, double max_idle_s = 1000) {
    service.reset();
    ServiceOptions options;
    options.settings = settings;
    options.max_idle_s = max_idle_s;
    options.max_jobs = 3;
    options.max_ranks = 100;
    Surroundings surroundings;
    surroundings.now_s = [this] { return now_s; };
    surroundings.run = [this](std::function<void()> work, std::function<void()> done) {
      if (!holds_work) {
        work();
        done();
        return;
      }
      held_work.push_back([work, done] {
        work();
        done();
      });
    };
    if (dumps) {
      surroundings.dump = [this](const std::string& job, File file) {
        files[job + "/" + file.name] = std::move(file.content);
      };
      surroundings.has_results = [this](const std::string& job) {
        const auto after = files.lower_bound(job + "/");
        return after != files.end() && after->first.starts_with(job + "/");
      };
    }
    last_settings = settings;
    store.waiting.clear();  // what was not committed is lost
    service = std::make_unique<Service>(std::move(options), std::move(surroundings), store, store.load());
  }
  void restart() { start(last_settings); }

  std::shared_ptr<FakeReply> send(const std::string& method, const std::string& path, const std::string& body = "",
                                  const std::string& query = "") {
    auto reply = std::make_shared<FakeReply>();
    http::Request request;
    request.method = method;
    request.path = path;
    request.query = query;
    request.body = body;
    EXPECT_TRUE(service->handle(request, reply)) << path;
    return reply;
  }
  std::shared_ptr<FakeReply> send_and_settle(const std::string& method, const std::string& path,
                                             const std::string& body = "") {
    auto reply = send(method, path, body);
    store.settle();
    return reply;
  }

  std::string register_job(const TestJobShape& shape) {
    const auto reply = send_and_settle("POST", "/register_job", to_json(test_job(shape)).dump());
    EXPECT_EQ(reply->status(), 200);
    return reply->json().get<std::string>();
  }
  std::shared_ptr<FakeReply> register_rank(const std::string& job, const RankInfo& rank) {
    Json body = to_json(rank);
    body["job_id"] = job;
    return send_and_settle("POST", "/register_rank", body.dump());
  }
  std::string registered_job(const TestJobShape& shape) {
    const std::string job = register_job(shape);
    for (const RankInfo& rank : test_ranks(shape)) EXPECT_EQ(register_rank(job, rank)->status(), 200);
    return job;
  }
  std::shared_ptr<FakeReply> ask(const std::string& job, int rank) {
    return send("GET", "/schedule/" + job, "", "rank=" + std::to_string(rank));
  }
  /// All ranks ask; what each was answered.
  std::vector<std::shared_ptr<FakeReply>> all_ask(const std::string& job, const TestJobShape& shape) {
    std::vector<std::shared_ptr<FakeReply>> replies;
    for (int rank = 0; rank < shape.world(); ++rank) replies.push_back(ask(job, rank));
    store.settle();
    return replies;
  }
  std::shared_ptr<FakeReply> report(const std::string& job, const RankInfo& rank,
                                    const std::shared_ptr<FakeReply>& schedule) {
    const auto states = schedule->json()["power_states"].get<std::vector<int>>();
    return send_and_settle("POST", "/result/" + job, to_json(test_result(rank, states)).dump());
  }
  /// One window of all ranks; the clock that rank 0 ran, 0 when there was none.
  int run_window(const std::string& job, const TestJobShape& shape) {
    const auto schedules = all_ask(job, shape);
    if (schedules[0]->status() != 200) return 0;
    for (int rank = 0; rank < shape.world(); ++rank) {
      EXPECT_EQ(report(job, test_rank(shape, rank), schedules[static_cast<std::size_t>(rank)])->status(), 200);
    }
    return schedules[0]->json()["power_states"][0].get<int>();
  }

  FakeStore store;
  std::unique_ptr<Service> service;
  Settings last_settings;
  double now_s = 1'700'000'000;
  bool dumps = false;
  bool holds_work = false;
  std::vector<std::function<void()>> held_work;
  std::map<std::string, std::string> files;
};

const TestJobShape kTwo = {2, 1, 1, nullptr};
const TestJobShape kFour = {2, 2, 1, nullptr};

TEST_F(PerseusServiceTest, OnlyItsOwnPathsAreTaken) {
  for (const char* path : {"/", "/v1/jobs", "/infos", "/schedules/x", "info", ""}) {
    http::Request request;
    request.method = "GET";
    request.path = path;
    const auto reply = std::make_shared<FakeReply>();
    EXPECT_FALSE(service->handle(request, reply)) << path;
    EXPECT_EQ(reply->status(), 0);
  }
  EXPECT_EQ(send("GET", "/info")->json()["scheduler"], "InstructionProfiler");
}

TEST_F(PerseusServiceTest, WhatDoesNotExistIsToldAsFastApiTellsIt) {
  EXPECT_EQ(send("GET", "/schedule")->status(), 404);
  EXPECT_EQ(send("GET", "/info/more")->status(), 404);
  const auto wrong_method = send("GET", "/register_job");
  EXPECT_EQ(wrong_method->status(), 405);
  EXPECT_EQ(wrong_method->json().dump(), R"({"detail":"Method Not Allowed"})");
  ASSERT_EQ(wrong_method->answer->headers.size(), 1U);
  EXPECT_EQ(wrong_method->answer->headers[0].second, "POST");
  EXPECT_EQ(send("GET", "/info/more")->json().dump(), R"({"detail":"Not Found"})");
  EXPECT_EQ(send("HEAD", "/info")->status(), 405);
  EXPECT_EQ(send("GET", "/schedule/nothing", "", "rank=0")->status(), 404);
  EXPECT_EQ(send("POST", "/result/nothing", R"({"rank": 0, "iter_time": [], "iter_energy": []})")->status(), 404);
  EXPECT_EQ(send("POST", "/register_job", "{")->status(), 400);
  EXPECT_EQ(send("POST", "/register_job", std::string(100, '['))->status(), 400);
  EXPECT_EQ(send("GET", "/schedule/%zz", "", "rank=0")->status(), 400);
}

TEST_F(PerseusServiceTest, AJobIsAnsweredOnceItIsOnDisk) {
  const auto reply = send("POST", "/register_job", to_json(test_job(kTwo)).dump());
  EXPECT_EQ(reply->status(), 0);
  store.settle();
  EXPECT_EQ(reply->json(), "2023-11-14-22-13-20+merak+gpt3-xl+uniform+dp1+pp2+tp1+mbs4+nmb6+InstructionProfiler");
}

TEST_F(PerseusServiceTest, TwoJobsOfOneSecondAreTwoJobs) {
  const std::string first = register_job(kTwo);
  const std::string second = register_job(kTwo);
  EXPECT_NE(first, second);
  EXPECT_EQ(service->status().jobs, 2U);
  // Scripts find results by all of the name but its time.
  EXPECT_EQ(first.substr(first.find('+')), second.substr(second.find('+')));
}

TEST_F(PerseusServiceTest, AJobGetsNoIdOfOneThatHasLeftResults) {
  dumps = true;
  restart();
  const std::string end = "+merak+gpt3-xl+uniform+dp1+pp2+tp1+mbs4+nmb6+InstructionProfiler";
  files["2023-11-14-22-13-20" + end + "/perseus.json"] = "{}";
  EXPECT_EQ(register_job(kTwo), "2023-11-14-22-13-21" + end);
}

TEST_F(PerseusServiceTest, ThereIsABarrierForEveryRank) {
  const std::string job = registered_job(kFour);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ask(job, rank)->status(), 0);
  store.settle();
  EXPECT_EQ(service->status().waiting, 3U);
  const auto last = ask(job, 3);
  store.settle();
  ASSERT_EQ(last->status(), 200);
  EXPECT_EQ(last->json()["rank"], 3);
  EXPECT_EQ(last->json()["power_states"].size(), test_rank(kFour, 3).pipe_schedule.size());
  EXPECT_EQ(service->status().waiting, 0U);
}

TEST_F(PerseusServiceTest, RanksMayAskBeforeAllHaveRegistered) {
  const std::string job = register_job(kTwo);
  ASSERT_EQ(register_rank(job, test_rank(kTwo, 0))->status(), 200);
  const auto early = ask(job, 0);
  EXPECT_EQ(early->status(), 0);
  ASSERT_EQ(register_rank(job, test_rank(kTwo, 1))->status(), 200);
  ask(job, 1);
  store.settle();
  EXPECT_EQ(early->status(), 200);
}

TEST_F(PerseusServiceTest, AJobRunsToItsEndWithResultsLeftBehind) {
  dumps = true;
  restart();
  const std::string job = registered_job(kFour);
  std::vector<int> clocks;
  while (const int clock = run_window(job, kFour)) clocks.push_back(clock);
  EXPECT_EQ(clocks, (std::vector{1410, 1410, 1410, 1380, 1350, 1320}));
  for (const auto& reply : all_ask(job, kFour)) {
    EXPECT_EQ(reply->status(), 500);
    EXPECT_THAT(reply->json()["detail"].get<std::string>(), StartsWith("[profiling-done]"));
  }
  EXPECT_EQ(Json::parse(files[job + "/perseus.json"])["scheduler"], "InstructionProfiler");
  EXPECT_EQ(Json::parse(files[job + "/ranks.json"]).size(), 4U);
  EXPECT_EQ(Json::parse(files[job + "/5.sched.json"])[3]["power_states"][0], 1320);
  EXPECT_EQ(read_perseus_result(Json::parse(files[job + "/5.prof.json"])[3].dump()).rank, 3);
  EXPECT_FALSE(files.contains(job + "/6.prof.json"));
  EXPECT_THAT(files[job + "/merak+gpt3-xl+uniform+dp2+tp1+pp2+mbs4+nmb6.csv"],
              StartsWith("stage,instruction,frequency,time,energy\n0,forward,1320,"));
}

/// A server that is killed at any moment between two windows writes the results that the window had.
TEST_F(PerseusServiceTest, ResultsOfAWindowAreKeptBeforeItIsOver) {
  dumps = true;
  restart();
  const std::string job = registered_job(kTwo);
  for (int window = 0; window < 3; ++window) run_window(job, kTwo);
  const auto schedules = all_ask(job, kTwo);
  EXPECT_EQ(report(job, test_rank(kTwo, 0), schedules[0])->status(), 200);
  const std::string states = schedules[1]->json()["power_states"].dump();
  const auto last = test_result(test_rank(kTwo, 1), Json::parse(states).get<std::vector<int>>());
  const auto reply = send("POST", "/result/" + job, to_json(last).dump());
  // The report is committed, what follows from it is not: only then may it be done again.
  auto [change, done] = std::move(store.waiting.front());
  store.waiting.pop_front();
  for (const StoredDocument& document : change.documents) store.documents[document.key] = document.document;
  done(StoreOutcome::committed);
  EXPECT_EQ(reply->status(), 200);
  const std::map<std::string, std::string> before = files;
  EXPECT_TRUE(files.contains(job + "/3.prof.json"));
  files.erase(job + "/3.prof.json");
  files.erase(job + "/3.sched.json");
  restart();
  EXPECT_EQ(files, before);
}

TEST_F(PerseusServiceTest, ResultsOfAJobThatIsOverAreNotWrittenAgain) {
  dumps = true;
  restart();
  const std::string job = registered_job(kTwo);
  while (run_window(job, kTwo) != 0) {
  }
  files.clear();  // as if another program had removed them
  restart();
  EXPECT_EQ(all_ask(job, kTwo)[0]->status(), 500);
  EXPECT_TRUE(files.empty());
}

TEST_F(PerseusServiceTest, WhatAWindowMeasuredIsKeptAlsoWhereItCannotBeUsed) {
  dumps = true;
  restart();
  const std::string job = registered_job(kTwo);
  for (int window = 0; window < 2; ++window) run_window(job, kTwo);
  all_ask(job, kTwo);
  for (int rank = 0; rank < 2; ++rank) {
    const Json one = {{"rank", rank}, {"iter_time", {1.0}}, {"iter_energy", {1.0}}};  // which is warm-up
    EXPECT_EQ(send_and_settle("POST", "/result/" + job, one.dump())->status(), 200);
  }
  EXPECT_EQ(all_ask(job, kTwo)[0]->status(), 400);
  EXPECT_TRUE(files.contains(job + "/2.prof.json"));
}

TEST_F(PerseusServiceTest, WebPagesAreRefused) {
  const auto status_with = [this](const std::string& header, const std::string& value,
                                  const std::string& method = "GET", const std::string& path = "/info") {
    auto reply = std::make_shared<FakeReply>();
    http::Request request;
    request.method = method;
    request.path = path;
    request.headers[header] = value;
    request.body = method == "POST" ? to_json(test_job(kTwo)).dump() : "";
    EXPECT_TRUE(service->handle(request, reply));
    store.settle();
    return reply->status();
  };
  EXPECT_EQ(status_with("origin", "http://192.0.2.1"), 403);
  EXPECT_EQ(status_with("origin", "null", "POST", "/register_job"), 403);
  EXPECT_EQ(status_with("sec-fetch-site", "cross-site"), 403);
  EXPECT_EQ(status_with("sec-fetch-site", "same-site"), 403);
  EXPECT_EQ(status_with("sec-fetch-site", "none"), 200);  // typed by a person
  EXPECT_EQ(status_with("content-type", "text/plain", "POST", "/register_job"), 415);
  EXPECT_EQ(status_with("content-type", "application/x-www-form-urlencoded", "POST", "/register_job"), 415);
  EXPECT_EQ(service->status().jobs, 0U);
  EXPECT_EQ(status_with("content-type", "application/json", "POST", "/register_job"), 200);
  EXPECT_EQ(status_with("content-type", "Application/JSON; charset=utf-8", "POST", "/register_job"), 200);
}

TEST_F(PerseusServiceTest, RanksThatContradictTheJobAreRefused) {
  const std::string job = register_job(kFour);
  ASSERT_EQ(register_rank(job, test_rank(kFour, 0))->status(), 200);
  const auto refused = [&](auto change, int number = 2) {
    RankInfo rank = test_rank(kFour, number);
    change(rank);
    const auto reply = register_rank(job, rank);
    EXPECT_EQ(reply->status(), 400);
    return reply->json()["detail"].template get<std::string>();
  };
  EXPECT_THAT(refused([](auto& rank) { rank.rank = 4; }), HasSubstr("rank 4 is out of range; the job has 4"));
  EXPECT_THAT(refused([](auto& rank) { rank.pp_rank = 2; }), HasSubstr("pp_rank 2 is out of range"));
  EXPECT_THAT(refused([](auto& rank) { rank.dp_rank = 0; }), HasSubstr("of rank 0"));
  EXPECT_THAT(refused([](auto& rank) { rank.power_states.pop_back(); }), HasSubstr("other power states than rank 0"));
  EXPECT_THAT(refused([](auto& rank) { rank.pipe_schedule.pop_back(); }),
              HasSubstr("another pipe_schedule than rank 0, which runs the same stage 0"));
  EXPECT_THAT(refused([](auto& rank) { rank.tp_rank = 1; }), HasSubstr("tp_rank 1 is out of range"));
  EXPECT_THAT(refused([](auto& rank) { rank.pipe_schedule.pop_back(); }, 0), HasSubstr("has registered before"));
  EXPECT_EQ(register_rank("nothing", test_rank(kFour, 1))->status(), 404);
  // The same again changes nothing.
  EXPECT_EQ(register_rank(job, test_rank(kFour, 0))->status(), 200);
  for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(register_rank(job, test_rank(kFour, rank))->status(), 200);
  EXPECT_EQ(all_ask(job, kFour)[0]->status(), 200);
}

TEST_F(PerseusServiceTest, ThereIsABoundOnJobsAndRanks) {
  TestJobShape large = {101, 1, 1, nullptr};
  EXPECT_EQ(send_and_settle("POST", "/register_job", to_json(test_job(large)).dump())->status(), 503);
  for (int i = 0; i < 3; ++i) register_job(kTwo);
  EXPECT_EQ(send_and_settle("POST", "/register_job", to_json(test_job(kTwo)).dump())->status(), 503);
}

TEST_F(PerseusServiceTest, ReportsAreForTheRunningWindow) {
  const std::string job = registered_job(kTwo);
  const std::string body = to_json(test_result(test_rank(kTwo, 0), std::vector<int>(26, 1410))).dump();
  EXPECT_EQ(send_and_settle("POST", "/result/" + job, body)->status(), 400);
  const auto schedules = all_ask(job, kTwo);
  EXPECT_EQ(report(job, test_rank(kTwo, 0), schedules[0])->status(), 200);
  EXPECT_EQ(report(job, test_rank(kTwo, 0), schedules[0])->status(), 200);  // sent again
  const std::string other = to_json(test_result(test_rank(kTwo, 0), std::vector<int>(26, 810))).dump();
  EXPECT_EQ(send_and_settle("POST", "/result/" + job, other)->status(), 400);
  RankInfo stranger = test_rank(kTwo, 0);
  stranger.rank = 7;
  EXPECT_EQ(report(job, stranger, schedules[0])->status(), 400);
  EXPECT_EQ(report(job, test_rank(kTwo, 1), schedules[1])->status(), 200);
}

TEST_F(PerseusServiceTest, NotANumberIsRefused) {
  const std::string job = registered_job(kTwo);
  all_ask(job, kTwo);
  const auto reply =
      send_and_settle("POST", "/result/" + job, R"({"rank": 0, "iter_time": [NaN], "iter_energy": [1]})");
  EXPECT_EQ(reply->status(), 400);
  EXPECT_TRUE(reply->json()["detail"].is_string());
}

TEST_F(PerseusServiceTest, AnErrorReachesEveryRankNowAndLater) {
  const std::string job = registered_job(kTwo);
  for (int i = 0; i < 2; ++i) run_window(job, kTwo);
  const auto schedules = all_ask(job, kTwo);
  // Rank 1 measures one iteration, and that is warm-up. Rank 0 asks before that is known.
  EXPECT_EQ(report(job, test_rank(kTwo, 0), schedules[0])->status(), 200);
  const auto early = ask(job, 0);
  EXPECT_EQ(early->status(), 0);
  EXPECT_EQ(send_and_settle("POST", "/result/" + job, R"({"rank": 1, "iter_time": [1], "iter_energy": [1]})")->status(),
            200);
  EXPECT_EQ(early->status(), 400);
  for (int again = 0; again < 3; ++again) {
    for (const auto& reply : all_ask(job, kTwo)) {
      EXPECT_EQ(reply->status(), 400);
      EXPECT_THAT(reply->json()["detail"].get<std::string>(), HasSubstr("rank 1: 1 iterations"));
    }
  }
}

TEST_F(PerseusServiceTest, AJobThatTheSchedulerCannotServeSaysSoToEveryRank) {
  start(read_perseus_settings("ZeusLocalPowerState", "", "frequency"));
  const std::string job = registered_job(kFour);
  for (const auto& reply : all_ask(job, kFour)) {
    EXPECT_EQ(reply->status(), 400);
    EXPECT_THAT(reply->json()["detail"].get<std::string>(), HasSubstr("use ZeusLocalPowerState3D"));
  }
}

TEST_F(PerseusServiceTest, ALostAnswerIsGivenAgain) {
  const std::string job = registered_job(kTwo);
  const auto first = all_ask(job, kTwo);
  const auto again = ask(job, 1);
  EXPECT_EQ(again->answer->text(), first[1]->answer->text());
}

TEST_F(PerseusServiceTest, ARankThatLeftIsWaitedFor) {
  const std::string job = registered_job(kTwo);
  const auto gone = ask(job, 0);
  gone->leave();
  const auto other = ask(job, 1);
  store.settle();
  EXPECT_EQ(other->status(), 0);
  const auto back = ask(job, 0);
  store.settle();
  EXPECT_EQ(back->status(), 200);
  EXPECT_EQ(other->status(), 200);
  EXPECT_EQ(gone->status(), 0);
}

TEST_F(PerseusServiceTest, ARankThatAsksTwiceIsAnsweredOnTheNewerConnection) {
  const std::string job = registered_job(kTwo);
  const auto older = ask(job, 0);
  const auto newer = ask(job, 0);
  EXPECT_EQ(older->status(), 400);
  older->leave();
  ask(job, 1);
  store.settle();
  EXPECT_EQ(newer->status(), 200);
}

TEST_F(PerseusServiceTest, RanksWaitWhileTheSchedulerWorks) {
  holds_work = true;
  const std::string job = registered_job(kTwo);
  const auto replies = all_ask(job, kTwo);
  EXPECT_EQ(replies[0]->status(), 0);
  ASSERT_EQ(held_work.size(), 1U);
  held_work[0]();
  store.settle();
  EXPECT_EQ(replies[0]->status(), 200);
}

TEST_F(PerseusServiceTest, WorkThatOutlivesTheServiceIsDropped) {
  holds_work = true;
  const std::string job = registered_job(kTwo);
  ASSERT_EQ(held_work.size(), 1U);
  service.reset();
  held_work[0]();
}

TEST_F(PerseusServiceTest, AFullDiskIsSaidAndTheSameMayBeSentAgain) {
  store.outcome = StoreOutcome::disk_full;
  const auto refused = send_and_settle("POST", "/register_job", to_json(test_job(kTwo)).dump());
  EXPECT_EQ(refused->status(), 503);
  EXPECT_THAT(refused->json()["detail"].get<std::string>(), HasSubstr("disk is full"));
  EXPECT_EQ(service->status().jobs, 0U);
  store.outcome = StoreOutcome::committed;
  const std::string job = register_job(kTwo);
  store.outcome = StoreOutcome::busy;
  EXPECT_EQ(register_rank(job, test_rank(kTwo, 0))->status(), 503);
  store.outcome = StoreOutcome::committed;
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(register_rank(job, test_rank(kTwo, rank))->status(), 200);
  // Training goes on, only results cannot be taken.
  store.outcome = StoreOutcome::disk_full;
  const auto schedules = all_ask(job, kTwo);
  EXPECT_EQ(schedules[0]->status(), 200);
  EXPECT_EQ(report(job, test_rank(kTwo, 0), schedules[0])->status(), 503);
  store.outcome = StoreOutcome::committed;
  EXPECT_EQ(report(job, test_rank(kTwo, 0), schedules[0])->status(), 200);
}

TEST_F(PerseusServiceTest, IdleJobsGo) {
  const std::string idle = registered_job(kTwo);
  run_window(idle, kTwo);
  now_s += 900;
  const std::string busy = registered_job(kTwo);
  now_s += 200;
  service->remove_idle_jobs();
  store.settle();
  EXPECT_EQ(service->status().jobs, 1U);
  EXPECT_EQ(ask(idle, 0)->status(), 404);
  for (const auto& [key, document] : store.documents) {
    EXPECT_EQ(document.empty(), key.find(idle) != std::string::npos) << key;
  }
  restart();
  EXPECT_EQ(service->status().jobs, 1U);
}

TEST_F(PerseusServiceTest, JobsWhoseRanksWaitAreNotIdle) {
  const std::string job = registered_job(kTwo);
  ask(job, 0);
  now_s += 1e6;
  service->remove_idle_jobs();
  EXPECT_EQ(service->status().jobs, 1U);
}

TEST_F(PerseusServiceTest, DamagedDocumentsTakeNoOtherJobAlong) {
  const std::string job = registered_job(kTwo);
  store.documents["perseus/x/job"] = "{";
  store.documents["perseus/y/rank/0"] = "{}";
  store.documents["perseus/z"] = "{}";
  store.documents["profile/x"] = "{}";
  restart();
  EXPECT_EQ(service->status().jobs, 1U);
  EXPECT_EQ(all_ask(job, kTwo)[0]->status(), 200);
}

TEST_F(PerseusServiceTest, AnotherSchedulerEndsTheJobsOfTheOneBefore) {
  const std::string job = registered_job(kTwo);
  start(read_perseus_settings("AllMaxFrequency", "", ""));
  const auto reply = ask(job, 0);
  EXPECT_EQ(reply->status(), 400);
  EXPECT_THAT(reply->json()["detail"].get<std::string>(), HasSubstr("another scheduler"));
}

TEST_F(PerseusServiceTest, ZeusClientsAskOnceAndKeepTheirPlan) {
  Settings settings;
  settings.scheduler = "PointSolution3D";
  settings.solutions = std::make_shared<const std::vector<formats::PerseusPlan>>(std::vector{formats::PerseusPlan{
      {{{OpKind::forward, 900}, {OpKind::backward, 1200}}, {{OpKind::forward, 1410}, {OpKind::backward, 1380}}}}});
  start(settings);
  const auto registered = send_and_settle(
      "POST", "/register_job",
      R"({"job_id": "", "pp_degree": 2, "dp_degree": 2, "tp_degree": 1, "world_size": 4, "job_metadata": "a/b"})");
  const std::string job = registered->json().get<std::string>();
  for (int rank = 0; rank < 4; ++rank) {
    const Json body = {{"rank", rank},
                       {"dp_rank", rank % 2},
                       {"pp_rank", rank / 2},
                       {"tp_rank", 0},
                       {"available_frequencies", test_clocks()}};
    EXPECT_EQ(send_and_settle("POST", "/register_rank/" + job, body.dump())->status(), 200);
  }
  const auto replies = all_ask(job, kFour);
  EXPECT_EQ(replies[1]->json().dump(), R"({"rank":1,"frequencies":[["forward",900],["backward",1200]]})");
  EXPECT_EQ(replies[2]->json().dump(), R"({"rank":2,"frequencies":[["forward",1410],["backward",1380]]})");
  restart();
  EXPECT_EQ(ask(job, 2)->answer->text(), replies[2]->answer->text());
  Json artifact = to_json(test_rank(kFour, 0));
  artifact["job_id"] = job;
  EXPECT_EQ(send_and_settle("POST", "/register_rank", artifact.dump())->status(), 400);
}

/// Whatever a server that never ended would have done, one that is started anew after every single step does too.
class PerseusRestart : public PerseusServiceTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(PerseusRestart, AJobContinuesWhereItWas) {
  const std::string args = std::string(GetParam()) == "Lowgear"
                               ? R"({"blocking_power_w": 80, "clocks": 4, "minimum_power_state": 810})"
                               : "";
  const Settings settings =
      read_perseus_settings(GetParam(), args, std::string(GetParam()).starts_with("ZeusLocal") ? "frequency" : "");
  const auto run = [&](bool restarts) {
    const auto maybe_restart = [&] {
      if (restarts) restart();
    };
    const std::string job = register_job(kFour);
    maybe_restart();
    for (const RankInfo& rank : test_ranks(kFour)) {
      EXPECT_EQ(register_rank(job, rank)->status(), 200);
      maybe_restart();
    }
    std::string transcript;
    for (int window = 0; window < 9; ++window) {
      const auto schedules = all_ask(job, kFour);
      maybe_restart();
      for (int rank = 0; rank < 4; ++rank) {
        const auto& schedule = schedules[static_cast<std::size_t>(rank)];
        transcript += std::string(schedule->answer->text());
        if (schedule->status() != 200) continue;
        const RankInfo info = test_rank(kFour, rank);
        EXPECT_EQ(report(job, info, schedule)->status(), 200);
        maybe_restart();
        EXPECT_EQ(rank == 3 || report(job, info, schedule)->status() == 200, true);  // its answer was lost
      }
    }
    return transcript;
  };
  start(settings);
  const std::string without = run(false);
  start(settings);
  EXPECT_EQ(run(true), without);
}

TEST_F(PerseusServiceTest, AReportThatArrivesWhileTheSchedulerRepeatsItselfAfterARestartIsTaken) {
  const std::string job = register_job(kFour);
  for (const RankInfo& rank : test_ranks(kFour)) EXPECT_EQ(register_rank(job, rank)->status(), 200);
  const auto schedules = all_ask(job, kFour);
  holds_work = true;
  restart();
  ASSERT_EQ(held_work.size(), 1U);
  const auto early = report(job, test_rank(kFour, 0), schedules[0]);
  EXPECT_FALSE(early->answer);
  held_work[0]();
  store.settle();
  EXPECT_EQ(early->status(), 200);
  held_work.clear();
  for (int rank = 1; rank < 4; ++rank) {
    EXPECT_EQ(report(job, test_rank(kFour, rank), schedules[static_cast<std::size_t>(rank)])->status(), 200);
  }
  EXPECT_EQ(held_work.size(), 1U) << "the window is over";
}

INSTANTIATE_TEST_SUITE_P(Schedulers, PerseusRestart,
                         ::testing::Values("ZeusGlobalPowerLimit", "ZeusLocalPowerState3D", "AllMaxPowerLimit3D",
                                           "Lowgear"),
                         [](const auto& scheduler) { return std::string(scheduler.param); });

}  // namespace
}  // namespace lowgear::server::perseus
