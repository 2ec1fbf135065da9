#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <functional>
#include <string>

#include "base/http/bounded_requests.h"
#include "base/http/server_fixture.h"

namespace lowgear::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;

class HttpServerLimits : public ServerFixture {};

TEST_F(HttpServerLimits, HeadersAndBodiesAreBounded) {
  serve();
  expect_bounded_requests([this](const std::string& request) { return ask(request); });
}

TEST_F(HttpServerLimits, ABodyUpToTheLimitIsTaken) {
  options.limits.body_bytes = 1'000'000;
  serve();
  const std::string body(1'000'000, 'b');
  RawClient client(port);
  client.send("POST /b HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + body);
  EXPECT_THAT(client.read_response(), HasSubstr("[" + body + "]"));
}

TEST_F(HttpServerLimits, ARequestThatDoesNotComeIsTimedOut) {
  options.request_timeout = 30ms;
  options.idle_timeout = 30ms;
  serve();
  RawClient halfway(path);
  halfway.send("GET /healthz HTTP/1.1\r\nHost:");
  EXPECT_THAT(halfway.read_response(), StartsWith("HTTP/1.1 408"));
  EXPECT_TRUE(halfway.ended());
  RawClient without_body(path);
  without_body.send("POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nbo");
  EXPECT_THAT(without_body.read_response(), StartsWith("HTTP/1.1 408"));
  RawClient silent(path);
  EXPECT_TRUE(silent.ended());
  halfway = RawClient();
  without_body = RawClient();
  EXPECT_TRUE(eventually([&] { return connections() == 0; }));
}

TEST_F(HttpServerLimits, OneByteNowAndThenGainsNoTime) {
  options.request_timeout = 50ms;
  serve();
  RawClient client(path);
  std::atomic<bool> ended = false;
  std::thread sender([&] {
    client.send("GET /");
    for (int i = 0; i < 2000 && !ended; ++i) {
      client.send("x");
      std::this_thread::sleep_for(5ms);
    }
  });
  EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 408"));
  ended = true;
  sender.join();
}

TEST_F(HttpServerLimits, WhatIsSentAfterARefusalIsReadOnlySoFar) {
  serve();
  RawClient client(path);
  client.send("POST / HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n");
  EXPECT_THAT(client.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 413"));
  std::thread sender([&] { client.send(std::string(8'000'000, 'x')); });  // returns when the connection ends
  sender.join();
  EXPECT_TRUE(eventually([&] { return connections() == 0; }));
}

TEST_F(HttpServerLimits, NoClientTakesAllConnections) {
  options.max_connections = 4;
  serve();
  const auto held = held_streams(path, "/stream", 3);
  RawClient refused(path);
  EXPECT_THAT(refused.read_response(), StartsWith("HTTP/1.1 503"));
  RawClient other(port);
  other.get("/");
  EXPECT_THAT(other.read_response(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerLimits, TheConnectionThatIsIdleLongestMakesRoom) {
  options.max_connections = 2;
  options.max_connections_per_client = 2;
  serve();
  RawClient first(path);
  first.get("/");
  (void)first.read_response();
  RawClient second(path);
  second.get("/");
  (void)second.read_response();
  RawClient third(port);
  third.get("/");
  EXPECT_THAT(third.read_response(), StartsWith("HTTP/1.1 200"));
  EXPECT_TRUE(first.ended());
  second.get("/wait");
  third.get("/wait");
  ASSERT_TRUE(eventually([&] { return waiting() == 2; }));
  RawClient refused(port);
  EXPECT_THAT(refused.read_response(), HasSubstr("too_many_connections"));
  answer_all({});
  EXPECT_THAT(second.read_response(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerLimits, WithoutFreeDescriptorsClientsWait) {
  serve();
  EXPECT_THAT(ask("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  const auto wait_until = [&](const std::function<bool()>& done) {
    RawClient client;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    client.connect_to(path);
    client.get("/");
    const bool waited = eventually(done);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_TRUE(waited);
    EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 200"));
  };
  wait_until([&] { return warnings > 0; });
  const auto some_tries = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  wait_until([&] { return std::chrono::steady_clock::now() > some_tries; });
  EXPECT_EQ(warnings, 1) << "at most one a minute";
}

TEST_F(HttpServerLimits, ManyRequestsAtOnceAreRefusedWithTheTimeToWait) {
  options.rate_limit = {.requests_per_s = 0.01, .burst = 3};
  serve();
  RawClient client(path);
  for (int i = 0; i < 3; ++i) {
    client.get("/");
    EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 200"));
  }
  client.get("/");
  const std::string refused = client.read_response();
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 429"));
  EXPECT_THAT(refused, HasSubstr("Retry-After: 100\r\n"));
  EXPECT_THAT(refused, HasSubstr("Connection: keep-alive"));
  RawClient same_user(path);
  same_user.get("/");
  EXPECT_THAT(same_user.read_response(), StartsWith("HTTP/1.1 429"));
  RawClient other(port);
  other.get("/");
  EXPECT_THAT(other.read_response(), StartsWith("HTTP/1.1 200"));
}

}  // namespace
}  // namespace lowgear::http
