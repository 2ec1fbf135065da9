#include "base/http/server/client_limits.h"

#include <gtest/gtest.h>

namespace lowgear::http {
namespace {

struct FakeConnection {};

class ConnectionTableTest : public testing::Test {
 protected:
  std::shared_ptr<FakeConnection> add(const std::string& client) {
    auto connection = std::make_shared<FakeConnection>();
    table_.add(connection, client);
    return connection;
  }

  ConnectionTable<FakeConnection> table_;
};

TEST_F(ConnectionTableTest, CountsByClient) {
  const auto first = add("a");
  const auto second = add("a");
  (void)add("b");
  EXPECT_EQ(table_.size(), 3);
  EXPECT_EQ(table_.of_client("a"), 2);
  EXPECT_EQ(table_.of_client("c"), 0);
  table_.remove(*first);
  table_.remove(*second);
  EXPECT_EQ(table_.of_client("a"), 0);
  EXPECT_EQ(table_.all().size(), 1);
}

TEST_F(ConnectionTableTest, KnowsWhichHasBeenIdleForLongest) {
  EXPECT_EQ(table_.longest_idle(), nullptr);
  const auto first = add("a");
  const auto second = add("a");
  table_.set_idle(*first, true);
  table_.set_idle(*second, true);
  table_.set_idle(*first, true);
  EXPECT_EQ(table_.longest_idle(), first) << "it has been all the time";
  table_.set_idle(*first, false);
  table_.set_idle(*first, true);
  EXPECT_EQ(table_.longest_idle(), second);
  table_.remove(*second);
  EXPECT_EQ(table_.longest_idle(), first);
  table_.set_idle(*first, false);
  EXPECT_EQ(table_.longest_idle(), nullptr);
}

TEST_F(ConnectionTableTest, CountsStreamsUntilTheyEnd) {
  const auto connection = add("a");
  table_.set_streams(*connection);
  EXPECT_EQ(table_.streams(), 1);
  table_.remove(*connection);
  EXPECT_EQ(table_.streams(), 0);
  EXPECT_TRUE(table_.empty());
}

using namespace std::chrono_literals;

TEST(RateLimiterTest, WithoutALimitNothingIsRefusedOrRemembered) {
  RateLimiter limiter({});
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(limiter.refuse("a", {}));
  EXPECT_EQ(limiter.clients(), 0U);
}

TEST(RateLimiterTest, ABurstIsTakenAndThenTheRate) {
  RateLimiter limiter({.requests_per_s = 10, .burst = 5});
  RateLimiter::Clock::time_point now{};
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(limiter.refuse("a", now));
  ASSERT_TRUE(limiter.refuse("a", now));
  EXPECT_NEAR(limiter.refuse("a", now)->count(), 0.1, 1e-9);
  EXPECT_FALSE(limiter.refuse("b", now));
  int taken = 0;
  for (int i = 0; i < 10'000; ++i) {  // 1 s
    now += 100us;
    if (!limiter.refuse("a", now)) ++taken;
  }
  EXPECT_NEAR(taken, 10, 1);
  now += 1h;
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(limiter.refuse("a", now));
  EXPECT_TRUE(limiter.refuse("a", now));
}

TEST(RateLimiterTest, ABurstBelowOneStillLetsRequestsThrough) {
  RateLimiter limiter({.requests_per_s = 1, .burst = 0});
  EXPECT_FALSE(limiter.refuse("a", {}));
  EXPECT_TRUE(limiter.refuse("a", {}));
}

TEST(RateLimiterTest, ClientsThatHaveTheirTokensBackAreForgotten) {
  RateLimiter limiter({.requests_per_s = 1000, .burst = 1});
  RateLimiter::Clock::time_point now{};
  for (int i = 0; i < 100'000; ++i) {
    now += 1ms;
    EXPECT_FALSE(limiter.refuse(std::to_string(i), now));
  }
  EXPECT_LE(limiter.clients(), 2048U);
}

TEST(RateLimiterTest, ThoseWhoAskTooOftenAreNot) {
  RateLimiter limiter({.requests_per_s = 1e-6, .burst = 1});
  for (int i = 0; i < 5000; ++i) EXPECT_FALSE(limiter.refuse(std::to_string(i), {}));
  for (int i = 0; i < 5000; ++i) EXPECT_TRUE(limiter.refuse(std::to_string(i), {}));
}

}  // namespace

}  // namespace lowgear::http
