#include "client/server/served_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/core/eventually.h"
#include "base/core/temporary_folder.h"
#include "client/fake_server.h"
#include "client/test_agent.h"
#include "protocol/one_op_plan.h"

namespace lowgear::client {

namespace {

protocol::ReportsAnswer asks(std::int64_t from_iteration, int iterations, double delay_s) {
  protocol::ReportsAnswer answer;
  answer.wants_begins = true;
  answer.delays = {.from_iteration = from_iteration, .iterations = iterations, .delay_s = delay_s};
  return answer;
}

TEST(IterationWaits, AreTakenOnceBeforeTheIterationsThatTheServerNames) {
  IterationWaits waits;
  waits.set_iteration_s(1);
  waits.set(asks(5, 2, 0.01));
  EXPECT_TRUE(waits.wants_begins());
  EXPECT_EQ(waits.take_s(4), 0);
  EXPECT_EQ(waits.take_s(5), 0.01);
  EXPECT_EQ(waits.take_s(5), 0) << "training has gone back to a checkpoint";
  waits.set(asks(5, 2, 0.01));  // with the answer to the next reports
  EXPECT_EQ(waits.take_s(6), 0.01);
  EXPECT_EQ(waits.take_s(7), 0);
  EXPECT_EQ(waits.taken_s(4), 0);
  EXPECT_EQ(waits.taken_s(5), 0.01);
  EXPECT_EQ(waits.taken_s(6), 0.01);
  EXPECT_EQ(waits.taken_s(7), 0);
}

TEST(IterationWaits, KnowWhetherTheProgramAsksForThem) {
  IterationWaits waits;
  EXPECT_FALSE(waits.can_wait(0));
  (void)waits.take_s(3);
  EXPECT_TRUE(waits.can_wait(3));
  EXPECT_FALSE(waits.can_wait(4)) << "it has begun without";
}

TEST(IterationWaits, EndWithAnAnswerThatAsksForNone) {
  IterationWaits waits;
  waits.set_iteration_s(1);
  waits.set(asks(5, 100, 0.01));
  waits.set({});
  EXPECT_FALSE(waits.wants_begins());
  EXPECT_EQ(waits.take_s(6), 0);
}

TEST(IterationWaits, AreAtMostAShareOfAnIterationWhateverIsAskedFor) {
  IterationWaits waits;
  waits.set(asks(0, 100, 60));
  EXPECT_EQ(waits.take_s(0), 0) << "no iteration is known yet";
  waits.set_iteration_s(0.5);
  EXPECT_EQ(waits.take_s(1), 0.5 * IterationWaits::kMostShare);
}

using namespace std::chrono_literals;

/// Iterations from the begin of a profile plan to the end of its trials.
constexpr int kEnoughIterations = 20;

Json offered_profile_plan(int version, std::int64_t from_iteration) {
  const std::int64_t trial = from_iteration + kEnoughIterations - 1;
  return {{"version", version},
          {"purpose", "profile"},
          {"from_iteration", from_iteration},
          {"reason", "test"},
          {"iterations", 0},
          {"settle_iterations", 0},
          {"settle_s", 0},
          {"sweep", 1},
          {"trials", {{{"first_iteration", trial}, {"iterations", 1}, {"clock_mhz", 990}}}},
          {"time_s", nullptr},
          {"energy_j", nullptr},
          {"plan", protocol::one_op_plan()}};
}

class ServedRankTest : public testing::Test {
 protected:
  explicit ServedRankTest(const char* job_json = R"({"run": "r"})") {
    start_agent();
    AgentLeaseOptions lease;
    lease.socket = agent_socket();
    lease.timeout = kPatience;
    lease.reconnect_after = 0ms;
    lease_ = std::make_unique<AgentLease>(std::move(lease));
    ServedRankOptions options;
    options.server.addresses = {http::Endpoint::parse("unix:" + server_socket())};
    options.server.job_json = job_json;
    options.server.first_backoff = 1ms;
    options.server.report_period = 1ms;
    rank_ = std::make_unique<ServedRank>(std::move(options), lease_.get());
  }

  [[nodiscard]] std::string agent_socket() const { return folder_ / "lease.sock"; }
  [[nodiscard]] std::string server_socket() const { return folder_ / "server.sock"; }
  void start_agent() { agent_ = std::make_unique<TestAgent>(agent_socket()); }
  void end_agent() {
    agent_.reset();
    while (lease_->status().has_lease()) lease_->keep();
  }
  void restart_agent() {
    start_agent();
    while (!lease_->status().has_lease()) lease_->keep();
  }
  /// Until the rank has taken it and asks for a newer one.
  void offer_profile_plan(int version, std::int64_t from_iteration) {
    server_->offer(offered_profile_plan(version, from_iteration));
    const std::string newer = "after=" + std::to_string(version);
    ASSERT_TRUE(eventually([&] {
      // A server that does not know the rank yet is first asked for what came after an earlier one's plans.
      const std::vector<std::string> queries = server_->plan_queries();
      const auto has = [](const std::string& part) {
        return [part](const std::string& query) { return query.find(part) != std::string::npos; };
      };
      const auto registered = std::ranges::find_if(queries, has("after=0"));
      return std::any_of(registered, queries.end(), has(newer));
    }));
  }
  void add(const UnitRecord& record) { rank_->add(record, meter_.add(record)); }
  void train(int iterations) {
    for (int i = 0; i < iterations; ++i, ++iteration_) {
      lease_->iteration_begins(iteration_);
      rank_->add(std::vector<measure::GpuSample>());
      const std::uint64_t begin_ns = iteration_ * 1'000'000;
      for (const RecordType type : {RecordType::iteration_begin, RecordType::unit, RecordType::iteration_end}) {
        add({.begin_ns = begin_ns,
             .end_ns = type == RecordType::iteration_begin ? begin_ns : begin_ns + 500'000,
             .iteration = iteration_,
             .clock_mhz = 1200,
             .type = type});
      }
    }
  }
  /// Of all iterations that were handed over; nothing can be added after it.
  [[nodiscard]] std::vector<Json> reported() {
    rank_.reset();
    std::vector<Json> reported;
    for (const Json& body : server_->bodies("/reports")) {
      for (const Json& report : body["reports"]) reported.push_back(report);
    }
    return reported;
  }
  [[nodiscard]] bool posts_profile() {
    return eventually([this] { return server_->count("/profile") == 1; });
  }

  TemporaryFolder folder_;
  std::unique_ptr<FakeServer> server_ = std::make_unique<FakeServer>(server_socket());
  std::unique_ptr<TestAgent> agent_;
  std::unique_ptr<AgentLease> lease_;
  std::unique_ptr<ServedRank> rank_;
  IterationMeter meter_{std::nullopt};
  std::uint64_t iteration_ = 0;
};

TEST_F(ServedRankTest, PostsWhatItMeasuredUnderAProfilePlan) {
  offer_profile_plan(1, 0);
  ASSERT_EQ(agent_->plans().size(), 1U);
  EXPECT_EQ(agent_->plans()[0].trials,
            (std::vector<ipc::TrialIterations>{{.first_iteration = 19, .iterations = 1, .clock_mhz = 990}}));
  train(kEnoughIterations);
  EXPECT_TRUE(posts_profile());
}

TEST_F(ServedRankTest, FollowsNoPlanWhileTheAgentCannotSetItsClocks) {
  offer_profile_plan(1, 0);
  train(5);
  EXPECT_EQ(rank_->status().plan_version, 1);
  agent_->set_clocks_held(false);
  train(5);
  EXPECT_EQ(rank_->status().plan_version, 0) << "what runs at other clocks is no profile of these";
  agent_->set_clocks_held(true);
  train(kEnoughIterations - 10);
  EXPECT_EQ(rank_->status().plan_version, 1);
  EXPECT_TRUE(posts_profile());
}

TEST_F(ServedRankTest, PostsWithTheLastTrialThoughTheAgentWasAwayMeanwhile) {
  offer_profile_plan(1, 0);
  train(5);
  end_agent();
  train(10);
  EXPECT_EQ(rank_->status().plan_version, 0) << "no clock was held";
  restart_agent();
  train(4);
  EXPECT_EQ(rank_->status().plan_version, 0) << "the agent that came back knows no trials";
  EXPECT_EQ(server_->count("/profile"), 0U);
  train(1);
  EXPECT_TRUE(posts_profile());
}

TEST_F(ServedRankTest, PostsWhatItHasOnceANewerPlanIsFollowed) {
  offer_profile_plan(1, 0);
  train(5);
  Json full_clocks = offered_profile_plan(2, 8);
  full_clocks["purpose"] = "full_clocks";
  server_->offer(full_clocks);
  ASSERT_TRUE(eventually([&] { return agent_->plans().size() == 2; }));
  ASSERT_TRUE(eventually(
      [&] { return testing::Value(server_->plan_queries(), testing::Contains(testing::HasSubstr("after=2"))); }));
  train(3);
  EXPECT_EQ(server_->count("/profile"), 0U);
  train(1);
  ASSERT_TRUE(posts_profile());
  EXPECT_EQ(server_->bodies("/profile").at(0)["plan_version"], 1);
  EXPECT_EQ(rank_->status().measured, 8U);
  EXPECT_EQ(rank_->status().at_full_clocks, 1U) << "neither planned nor measured";
}

TEST_F(ServedRankTest, CountsIterationsByThePurposeOfTheirPlan) {
  train(1);
  offer_profile_plan(1, 2);
  train(3);  // the plan begins with the second of them
  const ServedRankStatus status = rank_->status();
  EXPECT_EQ(status.iterations, 4U);
  EXPECT_EQ(status.planned, 0U);
  EXPECT_EQ(status.measured, 2U);
  EXPECT_EQ(status.at_full_clocks, 0U);
  EXPECT_EQ(status.before_plans, 2U);
}

TEST(ServedRankStatus, AccountsForEveryIteration) {
  ServedRankStatus status{.server = {}, .iterations = 120, .planned = 96, .measured = 22, .before_plans = 2};
  EXPECT_EQ(status.other_iterations(120), "; in 22 the server measured the job; 2 ran before the server's first plan");
  status.at_full_clocks = 3;
  EXPECT_EQ(status.other_iterations(127),
            "; in 22 the server measured the job; 3 ran at full clocks in place of a plan; 2 ran before the "
            "server's first plan; in 4 the agent held no plan's clocks");
  EXPECT_EQ(ServedRankStatus{}.other_iterations(5), "") << "the reason says it";
}

TEST_F(ServedRankTest, ReportsNoIterationTwice) {
  train(3);
  iteration_ = 1;  // training has gone back to a checkpoint
  train(4);
  iteration_ = 40;
  train(1);
  std::vector<int> iterations;
  for (const Json& report : reported()) iterations.push_back(report["iteration"]);
  EXPECT_EQ(iterations, (std::vector{0, 1, 2, 3, 4, 40}));
}

TEST_F(ServedRankTest, ReportsNoPredictionsOfAJobThatTheServerPlans) {
  rank_->predict(0, 0.5, false);
  train(1);
  const std::vector<Json> all = reported();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_FALSE(all[0].contains("predicted_time_s"));
  EXPECT_FALSE(all[0].contains("units_time_s"));
}

class StepsRankTest : public ServedRankTest {
 protected:
  StepsRankTest() : ServedRankTest(R"({"run": "r", "policy": "steps"})") {}
};

TEST_F(StepsRankTest, ReportsWhatWasPredictedForEachIteration) {
  constexpr double kTooLongS = 2 * protocol::kMaxIterationS;
  rank_->predict(0, 0.5, false);
  rank_->predict(1, 0.25, true);
  train(1);
  rank_->predict(2, 0, true);
  rank_->predict(3, kTooLongS, false);
  train(4);  // the last one was not planned in time
  const std::vector<Json> all = reported();
  ASSERT_EQ(all.size(), 5U);
  const Json none;
  const std::vector<Json> predicted{0.5, 0.25, none, none, none};
  const std::vector<bool> full{false, true, true, false, true};
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].value("predicted_time_s", Json()), predicted[i]) << i;
    EXPECT_EQ(all[i].value("full_clocks", false), full[i]) << i;
    EXPECT_NEAR(all[i].value("units_time_s", 0.0), 0.5e-3, 1e-9) << i;
  }
}

TEST_F(ServedRankTest, ProfilesNoUnitsThatNoScheduleHas) {
  offer_profile_plan(1, 0);
  train(3);
  add({.begin_ns = iteration_ * 1'000'000, .iteration = iteration_, .type = RecordType::iteration_begin});
  add({.begin_ns = iteration_ * 1'000'000 + 1,
       .end_ns = iteration_ * 1'000'000 + 2,
       .iteration = iteration_,
       .kind = OpKind::forward_backward});
  train(kEnoughIterations);
  ASSERT_TRUE(posts_profile());
  EXPECT_TRUE(server_->bodies("/profile").at(0)["cells"].empty());
}

TEST_F(ServedRankTest, ForgetsWhatItMeasuredForAServerThatHasLostItsDatabase) {
  offer_profile_plan(1, 0);
  train(5);
  server_.reset();
  server_ = std::make_unique<FakeServer>(server_socket(), "j-2");
  // Versions and sweeps are numbered anew.
  offer_profile_plan(1, 10);
  train(25);
  EXPECT_TRUE(posts_profile());
  rank_.reset();  // everything is handed over
  EXPECT_EQ(server_->count("/profile"), 1U) << "the one that was begun for the job that is gone is of no use";
}

}  // namespace

}  // namespace lowgear::client
