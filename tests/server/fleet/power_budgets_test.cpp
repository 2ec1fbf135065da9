#include "server/fleet/power_budgets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "base/http/message/error.h"
#include "server/fleet/refusal.h"
#include "server/server_fakes.h"
#include "server/simulated_job.h"

namespace lowgear::server {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Jobs that train, on one clock, and budgets that they follow.
class PowerBudgetsTest : public testing::Test {
 protected:
  SimulatedJob& add(const std::string& run, int pp, int dp = 1) {
    protocol::JobSpec spec = small_job(pp, dp);
    spec.run = run;
    return *jobs.emplace_back(std::make_unique<SimulatedJob>(spec, "j-" + run));
  }

  void put(const std::string& name, const std::string& body) {
    const Json document = Json::parse(body);
    budgets.put(name, JsonView(document, "body"), {});
    store.answer_all(StoreOutcome::committed);
  }

  SimulatedJob& add_training(const std::string& run, int pp, int dp = 1) {
    SimulatedJob& job = add(run, pp, dp);
    job.train();
    job.run(3);
    return job;
  }

  /// Each job carries out its orders. Returns how many there were.
  std::size_t follow(double now_s = 0) {
    std::vector<const JobRecord*> records;
    for (const auto& job : jobs) records.push_back(&job->record());
    const std::vector<PowerBudgets::Order> orders = budgets.follow(records, now_s, now_s);
    for (const PowerBudgets::Order& order : orders) {
      for (const auto& job : jobs) {
        if (&job->record() != order.job) continue;
        job->job().set_budget(order.slowdown_pct, order.why, job->now_s());
        job->settle();
      }
    }
    return orders.size();
  }

  /// Until nothing is ordered any more, and all ranks follow.
  void settle() {
    for (int round = 0; round < 10; ++round) {
      const std::size_t orders = follow();
      for (const auto& job : jobs) job->run(3);
      if (orders == 0 && round > 0) return;
    }
    ADD_FAILURE() << "orders do not end";
  }

  /// Of the last iterations, as ranks measured them.
  [[nodiscard]] double measured_w() const {
    double sum_w = 0;
    for (const auto& job : jobs) sum_w += job->energy_j() / job->time_s();
    return sum_w;
  }

  [[nodiscard]] Json shown(std::size_t budget = 0) const { return budgets.to_json()["budgets"][budget]; }

  HeldStore store;
  WatchedStore watched{&store, [] { return 0.0; }, {}};
  PowerBudgets budgets{watched, [] {}, 12'000};
  std::vector<std::unique_ptr<SimulatedJob>> jobs;
};

TEST_F(PowerBudgetsTest, LeaveJobsAloneThatDrawLess) {
  add_training("a", 2);
  put("cluster", R"({"watts": 100000})");
  EXPECT_EQ(follow(), 0U);
  EXPECT_TRUE(shown()["kept"].get<bool>());
  EXPECT_EQ(shown()["gpus_per_kw"], 0);
  ASSERT_THAT(budgets.uses(), SizeIs(1));
  EXPECT_EQ(budgets.uses().front().name, "cluster");
  EXPECT_NEAR(shown()["planned_w"].get<double>(), measured_w(), 0.03 * measured_w());
}

TEST_F(PowerBudgetsTest, AreKeptByAllJobsTogetherAndGivenBack) {
  add_training("a", 2);
  add_training("b", 4);
  add_training("c", 2, 2);
  const double before_w = measured_w();
  for (const double share : {0.95, 0.85, 0.9}) {
    put("cluster", R"({"watts": )" + std::to_string(share * before_w) + "}");
    settle();
    EXPECT_LE(measured_w(), share * before_w * 1.01) << share;
    EXPECT_GE(measured_w(), share * before_w * 0.97) << share;
    EXPECT_GT(shown()["gpus_per_kw"].get<double>(), 0);
    for (const auto& job : jobs) EXPECT_GT(job->record().targets.budget_slowdown_pct(), 0);
  }
  put("cluster", R"({"watts": 100000})");
  settle();
  EXPECT_NEAR(measured_w(), before_w, 0.01 * before_w);
  EXPECT_THAT(jobs[0]->reasons("budget").back(), HasSubstr("no power budget slows the job down any more"));
  EXPECT_THAT(jobs[0]->reasons("budget").front(), HasSubstr("power budget \"cluster\" of "));
}

/// A job that may draw more waits until the others draw less.
TEST_F(PowerBudgetsTest, AreKeptWhileJobsSwitch) {
  SimulatedJob& first = add_training("a", 2);
  SimulatedJob& second = add_training("b", 2);
  const double full_w = measured_w();
  put("both", R"({"watts": )" + std::to_string(0.9 * full_w) + "}");
  settle();
  // The first one runs at full speed, and its ranks hear late that it may not.
  const double second_before = second.record().targets.budget_slowdown_pct();
  first.job().set_budget(0, "", first.now_s());
  first.settle();
  first.run(3);
  first.deaf.assign(2, true);
  (void)follow();
  first.run(3);
  put("both", R"({"watts": )" + std::to_string(0.95 * full_w) + "}");
  (void)follow();
  EXPECT_EQ(second.record().targets.budget_slowdown_pct(), second_before) << "the first one draws too much yet";
  first.deaf.assign(2, false);
  settle();
  EXPECT_LT(second.record().targets.budget_slowdown_pct(), second_before);
  EXPECT_LE(measured_w(), 0.95 * full_w * 1.01);
}

TEST_F(PowerBudgetsTest, CountWhatCannotBePlannedAtFullPower) {
  add("a", 2);
  jobs.back()->register_all();
  put("cluster", R"({"watts": 1000, "other_w": 50})");
  EXPECT_THAT(follow(), 0U);
  ASSERT_EQ(jobs[0]->rank_spec(0).power_limit_w, std::nullopt);
  EXPECT_EQ(shown()["assumed_w"], 50 + 2 * 1200);
  EXPECT_FALSE(shown()["kept"].get<bool>());
}

TEST_F(PowerBudgetsTest, AreOfTheirHosts) {
  add_training("a", 2);
  const std::string host = jobs[0]->rank_spec(0).host;
  put("here", R"({"watts": 5000, "hosts": [")" + host + "\"]}");
  put("there", R"({"watts": 5000, "hosts": ["somewhere else"]})");
  (void)follow();
  EXPECT_GT(shown(0)["planned_w"].get<double>(), 0);
  EXPECT_EQ(shown(1)["planned_w"].get<double>(), 0);
}

/// All jobs weigh as much as they have GPUs; one of half the weight gives way more, and none below its floor.
TEST_F(PowerBudgetsTest, WeighRunsAndKeepTheirFloors) {
  SimulatedJob& first = add_training("a", 2);
  SimulatedJob& second = add_training("b", 2);
  const double before_w = measured_w();
  const std::string watts = std::to_string(0.9 * before_w);
  const auto power_w = [](const SimulatedJob& job) { return job.energy_j() / job.time_s(); };
  put("cluster", R"({"watts": )" + watts + R"(, "runs": [{"run": "a", "weight": 4}]})");
  settle();
  EXPECT_LE(measured_w(), 0.9 * before_w * 1.01);
  EXPECT_GT(power_w(first), 1.02 * power_w(second));
  EXPECT_LT(first.record().targets.budget_slowdown_pct(), second.record().targets.budget_slowdown_pct());
  const double floor_w = 0.48 * before_w;
  put("cluster", R"({"watts": )" + watts + R"(, "runs": [{"run": "a", "weight": 0.01, "floor_w": )" +
                     std::to_string(floor_w) + "}]}");
  settle();
  EXPECT_GE(power_w(first), 0.99 * floor_w);
  EXPECT_LE(measured_w(), 0.9 * before_w * 1.01);
}

/// Plans leave room for peaks, and for GPUs of no job, which may draw what is safe.
TEST_F(PowerBudgetsTest, AreHeldByAgents) {
  add_training("a", 2);
  const double before_w = measured_w();
  put("cluster", R"({"watts": )" + std::to_string(before_w) + R"(, "peak_pct": 10})");
  (void)follow();
  EXPECT_TRUE(shown()["held"].is_null());
  const protocol::NodePower node{.safe_w = 10, .gpus = {{"GPU-1", 10, 5, 1'000}, {"GPU-2", 10, 5, 1'000}}};
  (void)budgets.grant("node", node, 0);
  EXPECT_EQ(store.changes.back().documents.front().key, "node/node");
  settle();
  EXPECT_LE(measured_w(), (before_w - 20) / 1.1 * 1.01);
  EXPECT_TRUE(shown()["kept"].get<bool>());
  const protocol::NodeShares shares = budgets.grant("node", node, 0);
  EXPECT_NEAR(shares.shares[0].watts + shares.shares[1].watts, before_w, 3);
  (void)follow();
  EXPECT_EQ(shown()["held"]["nodes"], 1);
  EXPECT_LE(shown()["held"]["watts"].get<double>(), before_w);
  (void)follow(10);
  EXPECT_EQ(shown()["held"]["silent_nodes"], 1);
  EXPECT_EQ(shown()["held"]["watts"], 2'000);
  EXPECT_FALSE(shown()["kept"].get<bool>());
  EXPECT_THROW(budgets.forget_node("another", {}), Refused);
  budgets.forget_node("node", {});
  (void)follow(12);
  EXPECT_TRUE(shown()["held"].is_null());
}

TEST_F(PowerBudgetsTest, StateHowAlikeJobsWouldBeStaggered) {
  add_training("a", 4);
  add_training("b", 4);
  put("cluster", R"({"watts": 100000, "stagger_pct": 60})");
  put("row", R"({"watts": 100000})");
  settle();
  const Json stagger = shown()["stagger"];
  ASSERT_EQ(stagger["jobs"].size(), 2U);
  EXPECT_FALSE(stagger["applied"].get<bool>());
  EXPECT_GT(stagger["together"]["swing_w"].get<double>(), 0);
  EXPECT_LT(stagger["staggered"]["swing_w"].get<double>(), stagger["together"]["swing_w"].get<double>());
  EXPECT_LE(stagger["staggered"]["peak_w"].get<double>(), stagger["together"]["peak_w"].get<double>());
  const double mean_w = shown()["planned_w"].get<double>();
  EXPECT_GE(stagger["staggered"]["peak_w"].get<double>(), 0.97 * mean_w);
  EXPECT_LE(stagger["staggered"]["least_w"].get<double>(), 1.03 * mean_w);
  double longest_s = 0;
  for (const Json& job : stagger["jobs"]) longest_s = std::max(longest_s, job["delay_s"].get<double>());
  EXPECT_GT(longest_s, 0);
  EXPECT_LE(longest_s, 0.6 * jobs.front()->time_s() * 1.01);
  EXPECT_TRUE(shown(1)["stagger"].is_null());
  put("cluster", R"({"watts": 100000, "stagger_pct": 0})");
  (void)follow();
  EXPECT_TRUE(shown()["stagger"].is_null());
}

TEST_F(PowerBudgetsTest, DelayJobsOnlyWhereABudgetSaysSo) {
  add_training("a", 4);
  add_training("b", 4);
  add_training("other", 2);
  const auto delayed = [&] {
    return std::ranges::count_if(jobs, [&](const auto& job) { return budgets.delays(job->record().id).has_value(); });
  };
  put("cluster", R"({"watts": 100000, "stagger_pct": 60})");
  settle();
  EXPECT_EQ(delayed(), 0);
  EXPECT_FALSE(budgets.wants_begins());
  put("cluster", R"({"watts": 100000, "stagger_pct": 60, "stagger_apply": true})");
  settle();
  EXPECT_TRUE(budgets.wants_begins());
  EXPECT_EQ(delayed(), 1) << "they begin together: one waits for its turn, the other one for nothing";
  const Json stagger = shown()["stagger"];
  EXPECT_TRUE(stagger["applied"].get<bool>()) << stagger.dump();
  EXPECT_LT(stagger["staggered"]["swing_w"].get<double>(), stagger["together"]["swing_w"].get<double>());
  for (const Json& entry : stagger["jobs"]) {
    const bool is_other = entry["job"] == jobs[2]->record().id;
    EXPECT_EQ(entry["left_out"].is_null(), !is_other) << entry.dump();
    EXPECT_LE(entry.value("iteration_delay_s", 0.0), kMostDelayShare * jobs[0]->time_s());
  }
  put("cluster", R"({"watts": 100000})");
  (void)follow();
  EXPECT_EQ(delayed(), 0);
  EXPECT_FALSE(budgets.wants_begins());
}

TEST_F(PowerBudgetsTest, ShowWhatJobsMeasured) {
  put("cluster", R"({"watts": 100000})");
  (void)follow();
  EXPECT_TRUE(shown()["measured_w"].is_null());
  add_training("a", 2);
  const double training_w = measured_w();
  add("b", 2);  // has no iteration yet
  (void)follow();
  EXPECT_NEAR(shown()["measured_w"].get<double>(), training_w, 1e-3 * training_w);
  EXPECT_EQ(shown()["measured_gpus"], 2);
  (void)follow(jobs[0]->now_s() + 100);  // nothing was heard of the job meanwhile
  EXPECT_TRUE(shown()["measured_w"].is_null());
  EXPECT_EQ(shown()["measured_gpus"], 0);
}

TEST_F(PowerBudgetsTest, AreKeptInTheHistory) {
  put("cluster", R"({"watts": 3000})");
  (void)follow(1'000);
  ASSERT_THAT(store.changes.back().budgets, SizeIs(1));
  EXPECT_EQ(store.changes.back().budgets[0].limit_w, 3'000);
  const std::size_t changes = store.changes.size();
  (void)follow(1'001);
  EXPECT_EQ(store.changes.size(), changes);
}

std::vector<std::string> names_of(const std::vector<PowerBudgets::Event>& events) {
  std::vector<std::string> names;
  for (const PowerBudgets::Event& each : events) {
    names.push_back(std::string(name(each.event)) + " " + each.subject + " " + each.name);
  }
  return names;
}

TEST_F(PowerBudgetsTest, ReportWhatLasts) {
  put("cluster", R"({"watts": 100, "other_w": 200})");
  (void)follow(0);
  (void)follow(9);
  EXPECT_THAT(budgets.take_events(), IsEmpty());
  (void)follow(10);
  EXPECT_THAT(names_of(budgets.take_events()), testing::ElementsAre("budget_exceeded budget cluster"));
  (void)follow(30);
  EXPECT_THAT(budgets.take_events(), IsEmpty());
  put("cluster", R"({"watts": 300, "other_w": 200})");
  (void)follow(31);
  (void)follow(41);
  EXPECT_THAT(names_of(budgets.take_events()), testing::ElementsAre("budget_kept budget cluster"));
}

TEST_F(PowerBudgetsTest, ReportAgentsThatAreSilent) {
  const protocol::NodePower node{.safe_w = 10, .gpus = {{"GPU-1", 10, 5, 1'000}}};
  ASSERT_TRUE(budgets.restore({"node/n", to_json(node).dump()}));
  (void)follow(0);  // the server has just started
  (void)budgets.grant("n", node, 9);
  (void)follow(9);
  (void)follow(14);
  EXPECT_EQ(budgets.nodes().heard, 1U);
  (void)follow(15);
  (void)follow(24);
  EXPECT_THAT(budgets.take_events(), IsEmpty());
  EXPECT_EQ(budgets.nodes().silent, 1U);
  (void)follow(25);
  EXPECT_THAT(names_of(budgets.take_events()), testing::ElementsAre("agent_silent node n"));
  for (int now_s = 26; now_s < 40; ++now_s) {
    (void)budgets.grant("n", node, now_s);
    (void)follow(now_s);
  }
  EXPECT_THAT(names_of(budgets.take_events()), testing::ElementsAre("agent_heard node n"));
}

TEST_F(PowerBudgetsTest, ShowHostsThatNobodyKnows) {
  const std::string known = add_training("a", 2).record().ranks.find(0)->spec.host;
  (void)budgets.grant("of-an-agent", {.safe_w = 1, .gpus = {}}, 0);
  put("a", R"({"watts": 10})");
  put("b", R"({"watts": 10, "hosts": ["of-an-agent", "x", ")" + known + R"(", "y"]})");
  (void)follow();
  EXPECT_EQ(shown(0)["unknown_hosts"], Json::array());
  EXPECT_EQ(shown(1)["unknown_hosts"], Json::parse(R"(["x", "y"])"));
}

TEST_F(PowerBudgetsTest, RefuseTwoMachinesOfOneName) {
  const auto node = [](const char* uuid) {
    return protocol::NodePower{.safe_w = 200, .gpus = {{uuid, 200, 100, 400}}};
  };
  (void)budgets.grant("n", node("GPU-1"), 10);
  try {
    (void)budgets.grant("n", node("GPU-2"), 11);
    FAIL() << "not refused";
  } catch (const Refused& error) {
    EXPECT_EQ(error.reason(), Refusal::disagrees);
    EXPECT_THAT(error.what(), HasSubstr("host \"n\""));
  }
  (void)budgets.grant("n", node("GPU-1"), 12);
  (void)budgets.grant("n", node("GPU-2"), 20);
}

TEST_F(PowerBudgetsTest, CountAGpuOnceThatTwoNodesAskFor) {
  const protocol::NodePower node{.safe_w = 200, .gpus = {{"GPU-1", 200, 100, 400}, {"GPU-2", 200, 100, 400}}};
  const protocol::NodePower copy{.safe_w = 200, .gpus = {{"GPU-2", 200, 100, 400}}};
  put("cluster", R"({"watts": 900})");
  (void)budgets.grant("a", node, 10);
  EXPECT_THROW((void)budgets.grant("b", copy, 11), Refused);
  (void)follow(11);
  EXPECT_EQ(shown()["held"]["nodes"], 1);
  (void)budgets.grant("b", copy, 20);  // the first one is silent by now: the GPU is in the other machine
  (void)follow(21);
  EXPECT_EQ(shown()["held"]["nodes"], 2);
  EXPECT_LE(shown()["held"]["watts"], 800.0) << "a GPU counts once";
}

TEST_F(PowerBudgetsTest, KnowAGpuWhoseUuidIsWrittenInAnotherCase) {
  const Json twice = Json::parse(R"({"safe_w": 200, "gpus": [{"uuid": "GPU-a", "limit_w": 200, "least_w": 100,
      "most_w": 400}, {"uuid": "GPU-A", "limit_w": 200, "least_w": 100, "most_w": 400}]})");
  EXPECT_THAT(error_of([&] { (void)protocol::read_node_power(JsonView(twice, "body")); }), HasSubstr("occurs twice"));
}

/// The watts that a node names are taken from the others.
TEST_F(PowerBudgetsTest, BoundWhatANodeMayName) {
  put("cluster", R"({"watts": 10000})");
  const protocol::NodePower real{.safe_w = 200, .gpus = {{"GPU-1", 200, 100, 700}}};
  (void)budgets.grant("real", real, 0);
  protocol::NodePower invented{.safe_w = 2'999, .gpus = {}};
  for (int i = 0; i < 128; ++i) invented.gpus.push_back({"GPU-x" + std::to_string(i), 2'999, 2'999, 2'999});
  try {
    (void)budgets.grant("hostile", invented, 0);
    FAIL() << "not refused";
  } catch (const Refused& error) {
    EXPECT_EQ(error.reason(), Refusal::not_allowed);
    EXPECT_THAT(error.what(),
                HasSubstr("128 GPUs with limits of 383872 W together, and the GPUs of a node may have 12000 W"));
  }
  (void)follow(1);
  EXPECT_EQ(budgets.grant("real", real, 1).shares.at(0).watts, 700);
  EXPECT_EQ(budgets.nodes().heard, 1U);
}

TEST_F(PowerBudgetsTest, TakeTheLimitOfAGpuFromItsAgent) {
  SimulatedJob& job = add("a", 2);
  job.register_all();
  put("cluster", R"({"watts": 10000})");
  protocol::NodePower node{.safe_w = 100, .gpus = {}};
  for (int rank = 0; rank < 2; ++rank) node.gpus.push_back({job.rank_spec(rank).gpu_uuid, 100, 50, 700});
  (void)budgets.grant("n", node, 0);
  (void)follow();
  EXPECT_EQ(shown()["assumed_w"], 2 * 700);
}

TEST_F(PowerBudgetsTest, ForgetNodesThatWereInvented) {
  put("cluster", R"({"watts": 1000})");
  const protocol::NodePower real{.safe_w = 100, .gpus = {{"GPU-1", 100, 50, 700}}};
  for (int i = 0; i < 20; ++i) {
    const protocol::NodePower invented{.safe_w = 700, .gpus = {{"GPU-x" + std::to_string(i), 700, 50, 700}}};
    (void)budgets.grant("invented-" + std::to_string(i), invented, 0);
  }
  double share_w = 0;
  const auto ask_until = [&](double from_s, double to_s) {
    for (double now_s = from_s; now_s <= to_s; ++now_s) {
      (void)follow(now_s);
      share_w = budgets.grant("n", real, now_s).shares.at(0).watts;
    }
  };
  ask_until(0, PowerShares::kForgottenS - 1);
  EXPECT_EQ(share_w, 50) << "they may be there";
  ask_until(PowerShares::kForgottenS, PowerShares::kForgottenS + 20);
  EXPECT_EQ(share_w, 700) << "the others are no more";
  EXPECT_EQ(shown()["held"]["nodes"], 1);
  EXPECT_THAT(names_of(budgets.take_events()), testing::Contains("agent_forgotten node invented-7"));
}

TEST_F(PowerBudgetsTest, KeepASilentNodeWhoseGpusAJobHas) {
  SimulatedJob& job = add_training("a", 2);
  put("cluster", R"({"watts": 1000})");
  const protocol::NodePower node{.safe_w = 100, .gpus = {{job.rank_spec(0).gpu_uuid, 100, 50, 700}}};
  (void)budgets.grant("n", node, 0);
  for (double now_s = 0; now_s < 2 * PowerShares::kForgottenS; now_s += 10) (void)follow(now_s);
  EXPECT_EQ(shown()["held"]["silent_nodes"], 1) << "its agent is dead, and its GPUs draw what they like";
}

TEST_F(PowerBudgetsTest, HaveABoundedNumberOfNodes) {
  for (std::size_t i = 0; i < PowerShares::kMaxNodes; ++i) {
    (void)budgets.grant("n-" + std::to_string(i), {.safe_w = 1, .gpus = {}}, 0);
  }
  try {
    (void)budgets.grant("another", {.safe_w = 1, .gpus = {}}, 0);
    FAIL() << "not refused";
  } catch (const Refused& error) {
    EXPECT_EQ(error.reason(), Refusal::full);
  }
  (void)budgets.grant("n-7", {.safe_w = 1, .gpus = {}}, 1);
}

TEST_F(PowerBudgetsTest, FollowATimetable) {
  put("cluster", R"({"points": [[100, 3000], [200, 2000]]})");
  for (const auto& [now_s, watts] :
       {std::pair(0, 3000), std::pair(150, 3000), std::pair(200, 2000), std::pair(999, 2000)}) {
    (void)follow(now_s);
    EXPECT_EQ(shown()["watts_now"], watts) << now_s;
  }
}

/// Agents and drivers need a moment: what falls is in force before, what rises is not.
TEST_F(PowerBudgetsTest, FollowAFallBeforeItBegins) {
  put("cluster", R"({"points": [[100, 3000], [200, 2000], [201, 1000], [300, 4000]]})");
  for (const auto& [now_s, watts] : {std::pair(197.5, 3000), std::pair(198.5, 2000), std::pair(199.5, 1000),
                                     std::pair(299.5, 1000), std::pair(300.5, 4000)}) {
    (void)follow(now_s);
    EXPECT_EQ(shown()["watts_now"], watts) << now_s;
  }
}

/// The clock of the machine is set by an hour while the server runs.
TEST_F(PowerBudgetsTest, FollowATimetableByTheCalendar) {
  put("cluster", R"({"points": [[0, 3000], [3600, 2000]]})");
  for (const auto& [calendar_s, watts] : {std::pair(10, 3000), std::pair(3'700, 2000), std::pair(20, 3000)}) {
    (void)budgets.follow({}, 50, calendar_s);
    EXPECT_EQ(shown()["watts_now"], watts) << calendar_s;
    EXPECT_FALSE(budgets.is_due(50.9));
    EXPECT_TRUE(budgets.is_due(51));
  }
}

TEST_F(PowerBudgetsTest, SaysWhenTheyCannotBeKept) {
  add_training("a", 2);
  put("cluster", R"({"watts": 1})");
  EXPECT_EQ(follow(), 1U);
  EXPECT_FALSE(shown()["kept"].get<bool>());
  jobs[0]->run(4);
  EXPECT_THAT(follow(), 0U);
}

TEST_F(PowerBudgetsTest, AreDueEverySecond) {
  EXPECT_FALSE(budgets.is_due(1e9));
  put("cluster", R"({"watts": 1000})");
  (void)follow(100);
  EXPECT_FALSE(budgets.is_due(100.5));
  EXPECT_TRUE(budgets.is_due(101));
}

TEST_F(PowerBudgetsTest, RefuseWrongDocuments) {
  const auto refusal = [&](const std::string& body) {
    const Json document = Json::parse(body);
    return error_of([&] { (void)read_power_budget("x", JsonView(document, "body")); });
  };
  EXPECT_THAT(refusal("{}"), HasSubstr("needs either watts or points"));
  EXPECT_THAT(refusal(R"({"watts": 5, "points": [[0, 1]]})"), HasSubstr("needs either watts or points"));
  EXPECT_THAT(refusal(R"({"watts": 0})"), HasSubstr("watts"));
  EXPECT_THAT(refusal(R"({"points": []})"), HasSubstr("1 to 10000 points"));
  EXPECT_THAT(refusal(R"({"points": [[5, 10], [5, 20]]})"), HasSubstr("is not after the point before it"));
  EXPECT_THAT(refusal(R"({"points": [[-5, 10]]})"), HasSubstr("is before 1970"));
  EXPECT_THAT(refusal(R"({"points": [[1790000000000, 10]]})"), HasSubstr("not milliseconds"));
  EXPECT_THAT(refusal(R"({"watts": -5})"), HasSubstr("watts"));
  EXPECT_THAT(refusal(R"({"points": [[0, -5]]})"), HasSubstr("points[0][1]"));
  EXPECT_THAT(refusal(R"({"watts": 5, "other_w": -1})"), HasSubstr("other_w"));
  EXPECT_THAT(refusal(R"({"watts": 5, "runs": [{"run": "a", "floor_w": -1}]})"), HasSubstr("floor_w"));
  EXPECT_THAT(refusal(R"({"watts": 5, "hosts": []})"), HasSubstr("names"));
  EXPECT_THAT(refusal(R"({"watts": 5, "host": "a"})"), HasSubstr("host"));
  EXPECT_THAT(refusal(R"({"watts": 5, "peak_pct": 101})"), HasSubstr("peak_pct"));
  EXPECT_THAT(refusal(R"({"watts": 5, "stagger_pct": 100})"), HasSubstr("stagger_pct"));
  EXPECT_THAT(refusal(R"({"watts": 5, "stagger_apply": true})"), HasSubstr("needs stagger_pct"));
  EXPECT_THAT(refusal(R"({"watts": 5, "runs": [{"weight": 1}]})"), HasSubstr("run"));
  EXPECT_THAT(refusal(R"({"watts": 5, "runs": [{"run": "a", "weight": 0}]})"), HasSubstr("weight"));
  EXPECT_THAT(refusal(R"({"watts": 5, "runs": [{"run": "a"}, {"run": "a"}]})"), HasSubstr("occurs twice"));
}

TEST_F(PowerBudgetsTest, AreStoredRestoredAndRemoved) {
  put("row", R"({"watts": 1000})");
  const StoredDocument row = store.changes.back().documents.front();
  PowerBudgets again(
      watched, [] {}, 12'000);
  EXPECT_TRUE(again.restore(row));
  EXPECT_FALSE(again.restore({"signal/carbon", "{}"}));
  EXPECT_TRUE(again.restore({"node/a", R"({"safe_w": 1, "gpus": []})"}));
  EXPECT_FALSE(again.empty());
  EXPECT_THROW(again.remove("column", {}), Refused);
  again.remove("row", {});
  EXPECT_FALSE(again.empty());
  store.answer_all(StoreOutcome::committed);
  EXPECT_TRUE(again.empty());
}

}  // namespace
}  // namespace lowgear::server
