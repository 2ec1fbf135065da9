#include "server/fleet/waits.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/core/formats/json.h"
#include "server/http/api_routes.h"
#include "server/server_fakes.h"

namespace lowgear::server {
namespace {

constexpr double kUntilS = 1;

/// Two nodes of one GPU each under one limit, and what they hold.
class WaitsForShares : public testing::Test {
 protected:
  WaitsForShares() {
    limit(600);
    ask("a", 400);
    ask("b", 400);
    limit(600);
    ask("a", 300);
    ask("b", 300);
  }

  void limit(double watts) { shares_.divide({{watts, &hosts_}}, {{"GPU-a", 400}, {"GPU-b", 400}}, 0); }
  void ask(const std::string& host, double limit_w) {
    (void)shares_.grant(host, {.safe_w = 200, .gpus = {{"GPU-" + host, limit_w, 100, 400}}}, 0);
  }
  std::shared_ptr<HeldReply> wait(const std::string& host) {
    auto reply = std::make_shared<HeldReply>();
    waits_.add({.host = host, .until_s = kUntilS, .agent = pending_shares(reply)});
    return reply;
  }
  static double watts(const HeldReply& reply) {
    return Json::parse(*reply.response->body)["shares"].at(0)["watts"].get<double>();
  }

  std::set<std::string> hosts_{"a", "b"};
  PowerShares shares_;
  ShareWaits waits_;
};

TEST_F(WaitsForShares, EndOnceTheShareFalls) {
  const auto a = wait("a");
  waits_.answer(shares_, 0.1);
  EXPECT_EQ(a->status(), 0);
  limit(500);
  waits_.answer(shares_, 0.2);
  ASSERT_EQ(a->status(), 200);
  EXPECT_EQ(watts(*a), 250);
  EXPECT_TRUE(waits_.empty());
}

TEST_F(WaitsForShares, EndOnceOthersHaveGivenSomethingUp) {
  const auto b = wait("b");
  shares_.divide({{600, &hosts_}}, {{"GPU-a", 100}, {"GPU-b", 400}}, 0);
  waits_.answer(shares_, 0.1);
  EXPECT_EQ(b->status(), 0) << "the other one has what it had";
  ask("a", 300);  // is granted less
  waits_.answer(shares_, 0.2);
  EXPECT_EQ(b->status(), 0) << "and holds it until it says otherwise";
  ask("a", 200);
  waits_.answer(shares_, 0.3);
  ASSERT_EQ(b->status(), 200);
  EXPECT_EQ(watts(*b), 400);
}

TEST_F(WaitsForShares, EndWithTheSameShareAfterTheirTime) {
  const auto a = wait("a");
  waits_.answer(shares_, kUntilS);
  ASSERT_EQ(a->status(), 200);
  EXPECT_EQ(watts(*a), 300);
}

TEST_F(WaitsForShares, EndWhenTheServerDoes) {
  const auto a = wait("a");
  waits_.end_all(shares_);
  EXPECT_EQ(a->status(), 200);
}

TEST_F(WaitsForShares, AreForgottenWithTheirConnection) {
  const auto a = wait("a");
  a->gone = true;
  waits_.answer(shares_, 0);
  EXPECT_TRUE(waits_.empty());
  EXPECT_EQ(a->status(), 0);
}

TEST_F(WaitsForShares, LeaveNothingToANodeThatIsRemoved) {
  const auto a = wait("a");
  EXPECT_TRUE(shares_.forget("a"));
  waits_.answer(shares_, 0);
  ASSERT_EQ(a->status(), 200);
  EXPECT_EQ(Json::parse(*a->response->body)["shares"].size(), 0U);
}

}  // namespace
}  // namespace lowgear::server
