#include "client/server/server_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/core/error.h"
#include "base/core/eventually.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "client/fake_server.h"
#include "protocol/one_op_plan.h"

namespace lowgear::client {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Json offered(int version, std::int64_t from_iteration) {
  return {{"version", version}, {"purpose", "train"},  {"from_iteration", from_iteration},
          {"reason", "test"},   {"iterations", 0},     {"settle_iterations", 0},
          {"time_s", nullptr},  {"energy_j", nullptr}, {"plan", protocol::one_op_plan()}};
}

http::Response json_answer(int status, const std::string& body) {
  return http::Response::with_body(status, "application/json", body);
}

/// Takes plans as it is told, and remembers them.
class FakeTaker final : public PlanTaker {
 public:
  AgentLease::OfferAnswer offer(const protocol::RankPlan& plan) override {
    const std::lock_guard lock(mutex_);
    plans_.push_back(plan);
    return next_;
  }
  void forget_versions() override {
    const std::lock_guard lock(mutex_);
    ++forgotten_;
  }
  void take(const protocol::ReportsAnswer& answer) override {
    const std::lock_guard lock(mutex_);
    answers_.push_back(answer);
  }
  [[nodiscard]] std::vector<protocol::ReportsAnswer> answers() const {
    const std::lock_guard lock(mutex_);
    return answers_;
  }
  void answer(AgentLease::OfferAnswer next) {
    const std::lock_guard lock(mutex_);
    next_ = std::move(next);
  }
  [[nodiscard]] std::vector<protocol::RankPlan> plans() const {
    const std::lock_guard lock(mutex_);
    return plans_;
  }
  [[nodiscard]] int forgotten() const {
    const std::lock_guard lock(mutex_);
    return forgotten_;
  }

 private:
  mutable std::mutex mutex_;
  AgentLease::OfferAnswer next_{.offer = AgentLease::Offer::accepted, .reason = {}};
  std::vector<protocol::RankPlan> plans_;
  std::vector<protocol::ReportsAnswer> answers_;
  int forgotten_ = 0;
};

class ServerConnectionTest : public testing::Test {
 protected:
  ServerConnectionTest() {
    options_.addresses = {http::Endpoint::parse("unix:" + socket())};
    options_.job_json = R"({"run": "r"})";
    options_.rank.rank = 3;
    options_.rank.instance = "abc";
    options_.first_backoff = 1ms;
    options_.last_backoff = 20ms;
    options_.report_period = 1ms;
    options_.closing_time = 5s;
  }

  [[nodiscard]] std::string socket() const { return folder_ / "server.sock"; }
  void start_server(std::string job = "j-1") { server_ = std::make_unique<FakeServer>(socket(), std::move(job)); }
  void connect() { connection_ = std::make_unique<ServerConnection>(options_, taker_); }
  void report(std::int64_t iteration) {
    protocol::GpuNow gpu;
    gpu.power_w = 300;
    gpu.temperature_c = 60;
    connection_->report({.iteration = iteration, .time_s = 0.5, .compute_s = 0.25, .energy_j = {}}, gpu);
  }
  /// Iterations that the server has been told of with success or not, in order.
  [[nodiscard]] std::vector<int> reported() const {
    std::vector<int> iterations;
    for (const Json& body : server_->bodies("/reports")) {
      for (const Json& report : body["reports"]) iterations.push_back(report["iteration"]);
    }
    return iterations;
  }

  TemporaryFolder folder_;
  ServerConnectionOptions options_;
  FakeTaker taker_;
  std::unique_ptr<FakeServer> server_;
  std::unique_ptr<ServerConnection> connection_;
};

TEST_F(ServerConnectionTest, RegistersReportsAndFinishes) {
  start_server();
  write_file_atomically(folder_ / "token", "secret\n");
  options_.token_file = folder_ / "token";
  connect();
  report(0);
  ASSERT_TRUE(eventually([&] { return !reported().empty(); }));
  report(1);
  connection_.reset();
  EXPECT_EQ(server_->bodies("/v1/jobs").at(0), (Json{{"run", "r"}}));
  EXPECT_EQ(server_->bodies("/ranks").at(0)["instance"], "abc");
  EXPECT_EQ(server_->bodies("/ranks").at(0)["power_limit_w"], Json());
  EXPECT_EQ(reported(), (std::vector{0, 1}));
  const Json body = server_->bodies("/reports").at(0);
  EXPECT_EQ(body["rank"], 3);
  EXPECT_EQ(body["gpu"], (Json{{"power_w", 300.0},
                               {"sm_clock_mhz", nullptr},
                               {"sm_clock_min_mhz", nullptr},
                               {"sm_clock_max_mhz", nullptr},
                               {"temperature_c", 60}}));
  EXPECT_EQ(body["reports"][0]["energy_j"], Json());
  EXPECT_EQ(body["reports"][0]["compute_s"], 0.25);
  EXPECT_EQ(server_->bodies("/finish").at(0), (Json{{"rank", 3}}));
  EXPECT_THAT(server_->authorizations(), testing::Each("Bearer secret"));
}

TEST_F(ServerConnectionTest, SaysWhatEndedTheRank) {
  start_server();
  connect();
  connection_->set_failure("RuntimeError");
  connection_.reset();
  EXPECT_EQ(server_->bodies("/finish"), (std::vector{Json{{"rank", 3}, {"failure", "RuntimeError"}}}));
}

protocol::TrainingDecision adopted(const std::string& reason) {
  protocol::TrainingDecision decision;
  decision.technique = "freezing";
  decision.change = "adopt";
  decision.configuration = "6 of 24 blocks frozen";
  decision.reason = reason;
  return decision;
}

TEST_F(ServerConnectionTest, ReportsDecisionsAndWork) {
  start_server();
  connect();
  connection_->set_work({.layers = 24, .frozen_layers = 6, .precision = "bf16"});
  connection_->report(adopted("first"));
  ASSERT_TRUE(eventually([&] { return connection_->status().decisions_waiting == 0; }));
  connection_->report(adopted("at the end"));
  connection_.reset();
  std::vector<std::string> reasons;
  Json work;
  for (const Json& body : server_->bodies("/decisions")) {
    EXPECT_EQ(body["rank"], 3);
    if (!body["work"].is_null()) work = body["work"];
    for (const Json& decision : body["decisions"]) reasons.push_back(decision["reason"]);
  }
  EXPECT_EQ(work["frozen_layers"], 6);
  EXPECT_EQ(reasons, (std::vector<std::string>{"first", "at the end"}));
}

TEST_F(ServerConnectionTest, ReportsDecisionsOnceTheServerIsThere) {
  connect();
  connection_->report(adopted("first"));
  ASSERT_TRUE(eventually([&] { return !connection_->status().problem.empty(); }));
  connection_->report(adopted("second"));
  EXPECT_EQ(connection_->status().decisions_waiting, 2);
  start_server();
  ASSERT_TRUE(eventually([&] { return connection_->status().decisions_waiting == 0; }));
  EXPECT_EQ(connection_->status().decisions_lost, 0);
}

TEST_F(ServerConnectionTest, SendsADecisionAgainThatCouldNotBeStored) {
  start_server();
  server_->answer_next("/decisions", json_answer(503, R"({"error": {"message": "full", "code": "disk_full"}})"));
  connect();
  connection_->report(adopted("first"));
  ASSERT_TRUE(eventually([&] { return connection_->status().decisions_waiting == 0; }));
  const std::vector<Json> bodies = server_->bodies("/decisions");
  ASSERT_EQ(bodies.size(), 2);
  EXPECT_EQ(bodies[0]["decisions"][0]["number"], bodies[1]["decisions"][0]["number"]);
}

TEST_F(ServerConnectionTest, ReportsAllDecisionsToTheJobOfAServerThatHasLostTheFirst) {
  start_server("j-1");
  connect();
  connection_->report(adopted("first"));
  ASSERT_TRUE(eventually([&] { return connection_->status().decisions_waiting == 0; }));
  server_.reset();
  start_server("j-2");
  connection_->report(adopted("second"));
  ASSERT_TRUE(eventually([&] { return server_->count("/v1/jobs/j-2/decisions") > 0; }));
  ASSERT_TRUE(eventually([&] { return connection_->status().decisions_waiting == 0; }));
  EXPECT_EQ(server_->bodies("/v1/jobs/j-2/decisions").at(0)["decisions"].size(), 2);
}

TEST_F(ServerConnectionTest, AsksAnOlderServerOnceForEachDecision) {
  start_server();
  server_->answer_next("/decisions", json_answer(405, R"({"error": {"message": "no", "code": "method_not_allowed"}})"),
                       1000);
  connect();
  connection_->set_work({.layers = 24, .frozen_layers = 0, .precision = "bf16"});
  connection_->report(adopted("first"));
  ASSERT_TRUE(eventually([&] { return connection_->status().decisions_lost == 1; }));
  report(0);
  ASSERT_TRUE(eventually([&] { return !reported().empty(); })) << "the rest works";
  EXPECT_EQ(connection_->status().decisions_waiting, 0);
  EXPECT_LE(server_->count("/decisions"), 2);
}

TEST_F(ServerConnectionTest, TellsTheServerThatPlansAreRefused) {
  start_server();
  connect();
  connection_->set_refusal("another schedule");
  ASSERT_TRUE(eventually([&] { return server_->count("/reports") == 1; })) << "at once, without an iteration";
  EXPECT_EQ(server_->bodies("/reports").at(0)["refusal"], "another schedule");
  report(0);
  ASSERT_TRUE(eventually([&] { return server_->count("/reports") == 2; }));
  EXPECT_EQ(server_->bodies("/reports").at(1)["refusal"], "another schedule") << "with every report";
  connection_->set_refusal("");
  ASSERT_TRUE(eventually([&] { return server_->count("/reports") == 3; }));
  EXPECT_FALSE(server_->bodies("/reports").at(2).contains("refusal"));
  EXPECT_EQ(reported(), std::vector{0});
}

TEST_F(ServerConnectionTest, HandsOnWhatTheServerAnswersToReports) {
  start_server();
  server_->answer_next("/reports", json_answer(200, R"({"last_iteration": 0, "wants_begins": true,
      "delays": {"from_iteration": 7, "iterations": 3, "delay_s": 0.01}})"));
  connect();
  report(0);
  ASSERT_TRUE(eventually([&] { return taker_.answers().size() == 1; }));
  EXPECT_TRUE(taker_.answers()[0].wants_begins);
  EXPECT_EQ(taker_.answers()[0].delays,
            (protocol::IterationDelays{.from_iteration = 7, .iterations = 3, .delay_s = 0.01}));
  server_->answer_next("/reports", json_answer(200, R"({"delays": 5})"));
  report(1);
  ASSERT_TRUE(eventually([&] { return taker_.answers().size() == 2; }));
  EXPECT_EQ(taker_.answers()[1], protocol::ReportsAnswer{}) << "what cannot be read is no answer";
  EXPECT_EQ(connection_->status().reports_lost, 0U);
}

TEST_F(ServerConnectionTest, SaysWhenItSendsBeginsAndRepeatsNothingThatIsRefused) {
  start_server();
  server_->answer_next("/reports", json_answer(400, R"({"error": {"message": "unknown member", "code": "x"}})"));
  connect();
  protocol::IterationReport report{.iteration = 0, .time_s = 0.5, .compute_s = 0.25, .energy_j = {}};
  report.begin_s = 1.7e9;
  connection_->report(report, {});
  ASSERT_TRUE(eventually([&] { return connection_->status().reports_lost == 1; }));
  EXPECT_EQ(taker_.answers(), std::vector{protocol::ReportsAnswer{}}) << "nothing is waited for";
  report.iteration = 1;
  connection_->report(report, {});
  ASSERT_TRUE(eventually([&] { return server_->count("/reports") == 2; }));
  for (const Json& body : server_->bodies("/reports")) EXPECT_GT(body["sent_s"], 1.7e9);
  EXPECT_EQ(server_->bodies("/reports").at(1)["reports"][0]["iteration"], 1);
}

TEST_F(ServerConnectionTest, LetsTheServerHearOfARankThatReportsNothing) {
  start_server();
  connect();
  connection_->hear(
      {.power_w = 250, .sm_clock_mhz = {}, .sm_clock_min_mhz = {}, .sm_clock_max_mhz = {}, .temperature_c = {}});
  ASSERT_TRUE(eventually([&] { return server_->count("/reports") == 1; }));
  EXPECT_EQ(server_->bodies("/reports").at(0)["gpu"]["power_w"], 250);
  EXPECT_TRUE(reported().empty());
}

TEST_F(ServerConnectionTest, HandsPlansOnAndAsksForNewerOnes) {
  start_server();
  connect();
  server_->offer(offered(1, 7));
  ASSERT_TRUE(eventually([&] { return taker_.plans().size() == 1; }));
  EXPECT_EQ(taker_.plans()[0].from_iteration, 7);
  EXPECT_NO_THROW((void)plan::read_plan(taker_.plans()[0].plan_json, "plan"));
  server_->offer(offered(2, 9));
  ASSERT_TRUE(eventually([&] { return taker_.plans().size() == 2; }));
  ASSERT_TRUE(eventually([&] { return server_->plan_queries().size() == 3; }));
  EXPECT_EQ(server_->plan_queries()[2], "rank=3&after=2&wait_s=20");
  connection_.reset();
  EXPECT_EQ(taker_.plans().size(), 2U);
}

TEST_F(ServerConnectionTest, IsOfferedAPlanAnewThatCameTooLate) {
  start_server();
  connect();
  taker_.answer({.offer = AgentLease::Offer::too_late, .reason = {}});
  server_->offer(offered(4, 7));
  ASSERT_TRUE(eventually([&] { return taker_.plans().size() >= 2; }));
  taker_.answer({.offer = AgentLease::Offer::accepted, .reason = {}});
  server_->offer(offered(4, 12));
  ASSERT_TRUE(eventually([&] { return taker_.plans().back().from_iteration == 12; }));
  ASSERT_TRUE(eventually([&] { return server_->plan_queries().back() == "rank=3&after=4&wait_s=20"; }));
}

TEST_F(ServerConnectionTest, SaysWhyAPlanIsRefusedAndWaitsForAnother) {
  start_server();
  connect();
  taker_.answer({.offer = AgentLease::Offer::refused, .reason = "1200 MHz is too low"});
  server_->offer(offered(1, 7));
  ASSERT_TRUE(eventually([&] { return server_->plan_queries().size() == 2; }));
  EXPECT_THAT(server_->plan_queries()[1], HasSubstr("after=1"));
  EXPECT_THAT(connection_->status().problem, HasSubstr("1200 MHz is too low"));
}

TEST_F(ServerConnectionTest, WaitsForAServerThatIsAwayAndLosesNothing) {
  connect();
  for (std::uint64_t i = 0; i < 2'500; ++i) report(i);
  ASSERT_TRUE(eventually([&] { return !connection_->status().problem.empty(); }));
  EXPECT_FALSE(connection_->status().connected);
  start_server();
  ASSERT_TRUE(eventually([&] { return server_->count("/reports") >= 3; }));
  EXPECT_TRUE(eventually([&] { return reported().size() >= 2'500; })) << server_->count("/reports");
  EXPECT_EQ(reported().size(), 2'500U) << "1,000 a request";
  EXPECT_TRUE(eventually([&] { return connection_->status().connected && connection_->status().problem.empty(); }));
  EXPECT_EQ(connection_->status().reports_lost, 0U);
}

TEST_F(ServerConnectionTest, DropsTheOldestReportsWhenTheServerIsAwayForLong) {
  connect();
  for (std::uint64_t i = 0; i < 20'100; ++i) report(i);
  EXPECT_EQ(connection_->status().reports_lost, 100U);
  start_server();
  ASSERT_TRUE(eventually([&] { return server_->count("/reports") >= 20; }));
  EXPECT_EQ(reported().front(), 100);
}

TEST_F(ServerConnectionTest, RegistersAgainWhenTheServerHasForgottenIt) {
  start_server();
  connect();
  report(0);
  ASSERT_TRUE(eventually([&] { return reported().size() == 1; }));
  server_->answer_next("/reports", json_answer(404, R"({"error": {"message": "no such rank", "code": "x"}})"));
  report(1);
  ASSERT_TRUE(eventually([&] { return server_->count("/ranks") == 2; }));
  ASSERT_TRUE(eventually([&] { return reported().size() == 3; })) << "told again";
  EXPECT_EQ(server_->bodies("/ranks")[1], server_->bodies("/ranks")[0]) << "the same instance";
  EXPECT_EQ(taker_.forgotten(), 0) << "it is the same job";
}

class MovingServerTest : public ServerConnectionTest {
 protected:
  MovingServerTest() {
    options_.addresses.push_back(http::Endpoint::parse("unix:" + other_socket()));
    start_server();
    connect();
    report(0);
    EXPECT_TRUE(eventually([&] { return reported().size() == 1; }));
  }
  [[nodiscard]] std::string other_socket() const { return folder_ / "other.sock"; }
  /// At the other address from now on.
  void move_server(std::string job) {
    server_.reset();
    server_ = std::make_unique<FakeServer>(other_socket(), std::move(job));
  }
};

TEST_F(MovingServerTest, IsFoundAtItsOtherAddressWithTheSameJob) {
  server_.reset();
  report(1);
  // A request that the server ended is a problem at its address alone; those that follow are refused at both.
  const auto names_both = [&] {
    const std::string problem = connection_->status().problem;
    return problem.find("server.sock") != std::string::npos && problem.find("other.sock") != std::string::npos;
  };
  ASSERT_TRUE(eventually(names_both)) << connection_->status().problem;
  move_server("j-1");
  ASSERT_TRUE(eventually([&] { return reported() == std::vector{1}; }));
  server_->offer(offered(1, 7));
  EXPECT_TRUE(eventually([&] { return taker_.plans().size() == 1; })) << "plans come from there, too";
  EXPECT_EQ(server_->count("/ranks"), 0U) << "it is registered already";
  EXPECT_EQ(connection_->status().reports_lost, 0U);
  move_server("j-1");
  server_.reset();
  start_server();
  report(2);
  EXPECT_TRUE(eventually([&] { return reported() == std::vector{2}; })) << "and back";
}

TEST_F(MovingServerTest, IsLookedForElsewhereBeforeARankRegistersAnew) {
  FakeServer other(other_socket(), "j-1");
  const http::Response unknown = json_answer(404, R"({"error": {"message": "no such job", "code": "x"}})");
  server_->answer_next("/reports", unknown, 1'000'000);
  server_->answer_next("/plan", unknown, 1'000'000);
  report(1);
  ASSERT_TRUE(eventually([&] { return other.count("/reports") == 1; }));
  EXPECT_EQ(other.count("/ranks"), 0U);
  EXPECT_EQ(server_->count("/ranks"), 1U);
}

TEST_F(MovingServerTest, HasARankRegisteredAnewWhenNoAddressKnowsIt) {
  move_server("j-2");
  server_->answer_next("/v1/jobs/j-1/reports", json_answer(404, "{}"), 1'000'000);
  server_->answer_next("/v1/jobs/j-1/plan", json_answer(404, "{}"), 1'000'000);
  report(1);
  ASSERT_TRUE(eventually([&] { return server_->count("/ranks") == 1; }));
  report(2);
  EXPECT_TRUE(eventually([&] { return server_->count("/v1/jobs/j-2/reports") > 0; }));
}

TEST_F(ServerConnectionTest, ForgetsVersionsOfAServerThatHasLostItsJobs) {
  start_server();
  connect();
  server_->offer(offered(5, 1));
  ASSERT_TRUE(eventually([&] { return taker_.plans().size() == 1; }));
  server_.reset();
  start_server("j-2");
  report(8);
  ASSERT_TRUE(eventually([&] { return taker_.forgotten() == 1; }));
  server_->offer(offered(1, 20));
  ASSERT_TRUE(eventually([&] { return taker_.plans().size() == 2; }));
  EXPECT_EQ(taker_.plans()[1].version, 1);
}

TEST_F(ServerConnectionTest, ContinuesAfterAnswersOfAllKinds) {
  start_server();
  server_->answer_next("/v1/jobs", json_answer(503, R"({"error": {"message": "draining", "code": "draining"}})"));
  server_->answer_next("/v1/jobs", json_answer(200, "{"));
  server_->answer_next("/v1/jobs", json_answer(200, R"({"job": "../../etc"})"));
  server_->answer_next("/ranks", json_answer(200, R"({"rank_key": 7})"));
  server_->answer_next("/ranks", json_answer(200, R"({"rank_key": "a\r\nb"})"));
  server_->answer_next("/ranks", json_answer(409, R"({"error": {"message": "rank_taken", "code": "rank_taken"}})"));
  server_->answer_next("/plan", json_answer(200, "[]"), 3);
  server_->answer_next("/plan", json_answer(500, "<html>"));
  server_->answer_next("/reports", json_answer(429, "slow down"), 3);
  connect();
  report(0);
  server_->offer(offered(1, 7));
  EXPECT_TRUE(eventually([&] { return taker_.plans().size() == 1; }));
  EXPECT_TRUE(eventually([&] { return server_->count("/reports") == 4; }));
  EXPECT_TRUE(eventually([&] { return connection_->status().connected; }));
}

TEST_F(ServerConnectionTest, DropsReportsThatTheServerWillNeverTake) {
  start_server();
  server_->answer_next("/reports", json_answer(400, R"({"error": {"message": "time_s is NaN", "code": "bad"}})"));
  connect();
  report(0);
  ASSERT_TRUE(eventually([&] { return connection_->status().reports_lost == 1; }));
  report(1);
  ASSERT_TRUE(eventually([&] { return reported() == std::vector({0, 1}); }));
}

TEST_F(ServerConnectionTest, WaitsAsLongAsItIsTold) {
  start_server();
  http::Response busy = json_answer(429, "{}");
  busy.headers.emplace_back("Retry-After", "60");
  server_->answer_next("/reports", busy, 1'000'000);
  connect();
  report(0);
  ASSERT_TRUE(eventually([&] { return server_->count("/reports") == 1; }));
  std::this_thread::sleep_for(100ms);  // five times the longest back-off
  EXPECT_EQ(server_->count("/reports"), 1U);
}

TEST_F(ServerConnectionTest, PostsWhatUnitsTook) {
  start_server();
  connect();
  ProfileResult result;
  result.plan_version = 2;
  profile::RecordedCell cell;
  cell.key = {.stage = 1, .kind = OpKind::backward, .clock_mhz = 1200};
  cell.units = 40;
  cell.time_s = 0.5;
  cell.energy_j = 20;
  result.profile.cells.push_back(cell);
  cell.is_identified = false;
  result.profile.cells.push_back(cell);
  result.profile.blocking.push_back({.stage = 1, .power_w = 80, .error_w = 1, .is_identified = true});
  connection_->post(result);
  ASSERT_TRUE(eventually([&] { return server_->count("/profile") == 1; }));
  const Json body = server_->bodies("/profile")[0];
  EXPECT_EQ(body["plan_version"], 2);
  ASSERT_EQ(body["cells"].size(), 1U) << "not the one that cannot be told";
  EXPECT_EQ(body["cells"][0]["instruction"], "backward");
  EXPECT_EQ(body["cells"][0]["energy_j"], 20);
  EXPECT_EQ(body["blocking"][0]["power_w"], 80);
}

TEST_F(ServerConnectionTest, EndsWithoutAServer) {
  connect();
  report(0);
  connection_.reset();
  start_server();
  connect();
  server_->answer_next("/reports", json_answer(503, "{}"), 1'000'000);
  report(1);
  connection_.reset();
  SUCCEED();
}

TEST_F(ServerConnectionTest, SaysThatItsTokenIsMissing) {
  options_.token_file = folder_ / "none";
  start_server();
  connect();
  EXPECT_TRUE(eventually([&] { return connection_->status().problem.find("none") != std::string::npos; }));
  write_file_atomically(folder_ / "none", "now\n");
  EXPECT_TRUE(eventually([&] { return connection_->status().connected; })) << "it is read again";
}

}  // namespace
}  // namespace lowgear::client
