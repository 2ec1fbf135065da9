#include "server/fleet/power_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace lowgear::server {

namespace {

TEST(LastingState, CountsOnceItHasLasted) {
  LastingState state;
  EXPECT_EQ(state.observe(false, 0, 10), std::nullopt);
  EXPECT_EQ(state.observe(true, 1, 10), std::nullopt);
  EXPECT_EQ(state.observe(true, 10.9, 10), std::nullopt);
  EXPECT_EQ(state.observe(true, 11, 10), true);
  EXPECT_EQ(state.observe(true, 30, 10), std::nullopt);
  EXPECT_EQ(state.observe(false, 31, 10), std::nullopt);
  EXPECT_EQ(state.observe(false, 41, 10), false);
}

TEST(LastingState, ForgetsWhatComesAndGoes) {
  LastingState state;
  for (int now_s = 0; now_s < 100; ++now_s) EXPECT_EQ(state.observe(now_s % 9 != 0, now_s, 10), std::nullopt);
}

constexpr double kSafeW = 200;
constexpr double kMostW = 400;
constexpr double kLeastW = 100;

/// What a node's agent does with its GPUs, and what happens to it.
struct SimulatedNode {
  std::string host;
  std::vector<double> limits_w;
  double valid_until_s = 0;
  double asks_at_s = 0;
  bool is_dead = false;

  SimulatedNode(std::string name, std::size_t gpus) : host(std::move(name)), limits_w(gpus, kSafeW) {}

  [[nodiscard]] std::string uuid(std::size_t gpu) const { return host + "-" + std::to_string(gpu); }
  [[nodiscard]] protocol::NodePower power() const {
    protocol::NodePower node{.safe_w = kSafeW, .gpus = {}};
    for (std::size_t i = 0; i < limits_w.size(); ++i) node.gpus.push_back({uuid(i), limits_w[i], kLeastW, kMostW});
    return node;
  }
  void ask(PowerShares& shares, double now_s) {
    const protocol::NodeShares answer = shares.grant(host, power(), now_s);
    for (std::size_t i = 0; i < limits_w.size(); ++i) limits_w[i] = answer.shares.at(i).watts;
    valid_until_s = now_s + answer.valid_s;
  }
  void look(double now_s) {
    if (now_s < valid_until_s) return;
    for (double& limit_w : limits_w) limit_w = kSafeW;
  }
  [[nodiscard]] double sum_w() const {
    double sum_w = 0;
    for (const double limit_w : limits_w) sum_w += limit_w;
    return sum_w;
  }
};

const std::set<std::string> kNoneMissing;

TEST(PowerShares, AreTheWholeRangeWithoutABudget) {
  PowerShares shares;
  SimulatedNode node("a", 2);
  shares.divide({}, {}, 0);
  node.ask(shares, 0);
  shares.divide({}, {}, 0);
  node.ask(shares, 0);
  EXPECT_EQ(node.sum_w(), 2 * kMostW);
}

TEST(PowerShares, AreInProportionToWhatJobsWant) {
  PowerShares shares;
  SimulatedNode node("a", 3);
  node.ask(shares, 0);
  const std::unordered_map<std::string, double> wanted_w = {{"a-0", 400}, {"a-1", 300}};
  for (int round = 0; round < 3; ++round) {
    shares.divide({{760, &kNoneMissing}}, wanted_w, 0);
    node.ask(shares, 0);
  }
  EXPECT_EQ(node.limits_w, (std::vector<double>{320, 240, 200}));  // the third one has no job: the safe limit
  ASSERT_EQ(shares.uses().size(), 1U);
  EXPECT_EQ(shares.uses()[0].reserved_w, kSafeW);
  EXPECT_EQ(shares.uses()[0].nodes, 1U);
}

TEST(PowerShares, KeepTheBudgetOfEachNode) {
  PowerShares shares;
  SimulatedNode first("a", 2);
  SimulatedNode second("b", 2);
  const std::set<std::string> only_first = {"a"};
  for (int round = 0; round < 4; ++round) {
    shares.divide({{1'200, &kNoneMissing}, {500, &only_first}}, {}, 0);
    first.ask(shares, 0);
    second.ask(shares, 0);
  }
  EXPECT_EQ(first.sum_w(), 500);
  EXPECT_EQ(second.sum_w(), 600);
}

TEST(PowerShares, AreRaisedOnlyByWhatOthersHaveGivenUp) {
  PowerShares shares;
  SimulatedNode first("a", 1);
  SimulatedNode second("b", 1);
  std::unordered_map<std::string, double> wanted_w = {{"a-0", 400}, {"b-0", 200}};
  const auto divide = [&] { shares.divide({{600, &kNoneMissing}}, wanted_w, 0); };
  for (int round = 0; round < 3; ++round) {
    divide();
    first.ask(shares, 0);
    second.ask(shares, 0);
  }
  EXPECT_EQ(first.limits_w.front(), 400);
  wanted_w = {{"a-0", 200}, {"b-0", 400}};
  divide();
  second.ask(shares, 0);
  EXPECT_EQ(second.limits_w.front(), 200) << "the first one does not know yet";
  first.ask(shares, 0);
  second.ask(shares, 0);
  EXPECT_EQ(second.limits_w.front(), 200) << "the first one has not said that it has set its limit";
  first.ask(shares, 0);
  second.ask(shares, 0);
  EXPECT_EQ(first.limits_w.front(), 200);
  EXPECT_EQ(second.limits_w.front(), 400);
}

TEST(PowerShares, AreBelowTheSafeLimitOnlyWhereAllCannotHaveThat) {
  PowerShares shares;
  SimulatedNode node("a", 2);
  const std::unordered_map<std::string, double> wanted_w = {{"a-0", 400}, {"a-1", 100}};
  for (const auto& [watts, first_w, second_w] : {std::tuple(500, 300, 200), std::tuple(380, 280, 100)}) {
    for (int round = 0; round < 3; ++round) {
      shares.divide({{static_cast<double>(watts), &kNoneMissing}}, wanted_w, 0);
      node.ask(shares, 0);
    }
    EXPECT_EQ(node.limits_w, (std::vector<double>{static_cast<double>(first_w), static_cast<double>(second_w)}));
  }
}

TEST(PowerShares, CountANodeThatIsNotHeardOfAtFullPower) {
  PowerShares shares;
  SimulatedNode first("a", 1);
  SimulatedNode second("b", 1);
  shares.divide({{600, &kNoneMissing}}, {}, 0);
  first.ask(shares, 0);
  second.ask(shares, 0);
  shares.divide({{600, &kNoneMissing}}, {}, PowerShares::kValidS + 1);
  EXPECT_EQ(shares.uses()[0].silent_nodes, 2U);
  EXPECT_EQ(shares.uses()[0].held_w, 2 * kMostW);
  second.ask(shares, PowerShares::kValidS + 1);
  shares.divide({{600, &kNoneMissing}}, {}, PowerShares::kValidS + 1);
  second.ask(shares, PowerShares::kValidS + 1);
  EXPECT_EQ(second.sum_w(), 600 - kMostW);
  EXPECT_TRUE(shares.forget("a"));
  EXPECT_FALSE(shares.forget("a"));
  for (int round = 0; round < 2; ++round) {
    shares.divide({{600, &kNoneMissing}}, {}, PowerShares::kValidS + 1);
    second.ask(shares, PowerShares::kValidS + 1);
  }
  EXPECT_EQ(second.sum_w(), kMostW);
}

/// Two machines of one name would each get what counts once.
TEST(PowerShares, AreOfOneMachineOfANameAtATime) {
  PowerShares shares;
  SimulatedNode node("a", 2);
  const protocol::NodePower other{.safe_w = kSafeW, .gpus = {{"b-0", kSafeW, kLeastW, kMostW}}};
  EXPECT_FALSE(shares.is_another("a", other, 0));
  node.ask(shares, 0);
  EXPECT_TRUE(shares.is_another("a", other, 1));
  EXPECT_FALSE(shares.is_another("a", node.power(), 1));
  protocol::NodePower repaired = node.power();
  repaired.gpus[1].uuid = "b-0";
  EXPECT_FALSE(shares.is_another("a", repaired, 1)) << "one GPU was replaced";
  EXPECT_FALSE(shares.is_another("a", other, PowerShares::kValidS + 1)) << "the machine was replaced";
}

TEST(PowerShares, OfNodesThatAreOnlyKnownFromBeforeAreFull) {
  PowerShares shares;
  shares.restore("a", SimulatedNode("a", 2).power());
  shares.divide({{1'000, &kNoneMissing}}, {}, 0);
  EXPECT_EQ(shares.uses()[0].held_w, 2 * kMostW);
  EXPECT_FALSE(shares.knows("a", SimulatedNode("a", 1).power()));
  EXPECT_TRUE(shares.knows("a", SimulatedNode("a", 2).power()));
}

/// Agents and the server end and start at random, jobs want other powers, the budget falls and rises.
TEST(PowerShares, NeverAddUpToMoreThanABudgetForLong) {
  std::mt19937 random(7);
  const auto chance = [&](int one_in) { return random() % static_cast<unsigned>(one_in) == 0; };
  std::vector<SimulatedNode> nodes;
  for (int i = 0; i < 20; ++i) nodes.emplace_back("node-" + std::to_string(i), 4);
  PowerShares shares;
  std::unordered_map<std::string, double> wanted_w;
  // As safe limits are chosen: all GPUs with them, and some nodes that died at full power.
  constexpr std::ptrdiff_t kMostDead = 5;
  const double lowest_w = 60 * kSafeW + 20 * kMostW;
  double budget_w = 80 * kMostW;
  double fell_at_s = 0;
  double server_from_s = 0;
  int raised = 0;
  for (double now_s = 0; now_s < 600; now_s += 0.25) {
    if (chance(40)) {
      const double before_w = budget_w;
      budget_w = lowest_w * (1 + 0.0005 * static_cast<double>(random() % 1'000));
      if (budget_w < before_w) fell_at_s = now_s;
    }
    if (chance(80)) {
      PowerShares restarted;
      for (const SimulatedNode& node : nodes) restarted.restore(node.host, node.power());
      shares = restarted;
      server_from_s = now_s + static_cast<double>(random() % 10);
    }
    for (SimulatedNode& node : nodes) {
      const bool may_die = std::ranges::count(nodes, true, &SimulatedNode::is_dead) < kMostDead;
      if (!node.is_dead && may_die && chance(400)) node.is_dead = true;
      if (node.is_dead && chance(60)) {
        node.is_dead = false;  // starts again
        node.valid_until_s = 0;
      }
      for (std::size_t gpu = 0; gpu < 4; ++gpu) {
        if (chance(100)) wanted_w[node.uuid(gpu)] = 100 + static_cast<double>(random() % 300);
      }
    }
    if (now_s >= server_from_s) shares.divide({{budget_w, &kNoneMissing}}, wanted_w, now_s);
    for (SimulatedNode& node : nodes) {
      if (node.is_dead) continue;
      node.look(now_s);
      if (now_s < server_from_s || now_s < node.asks_at_s) continue;
      node.asks_at_s = now_s + 0.5;
      const double before_w = node.sum_w();
      node.ask(shares, now_s);
      raised += node.sum_w() > before_w ? 1 : 0;
    }
    double sum_w = 0;
    for (const SimulatedNode& node : nodes) sum_w += node.sum_w();
    // Dead nodes keep what they had; a server that is away learns nothing of a budget that has fallen.
    if (now_s - std::max(fell_at_s, server_from_s) <= PowerShares::kValidS + 1) continue;
    EXPECT_LE(sum_w, budget_w * (1 + 1e-9)) << now_s;
  }
  EXPECT_GT(raised, 100);
}

}  // namespace

}  // namespace lowgear::server
