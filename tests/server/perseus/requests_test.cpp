#include "server/perseus/requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/http/message/error.h"
#include "server/perseus/test_support.h"

namespace lowgear::server::perseus {

namespace {

/// 200, or the status that the request is refused with.
int status(const http::Headers& headers, bool loopback_only = true) {
  http::Request request;
  request.headers = headers;
  try {
    refuse_browsers(request, loopback_only);
  } catch (const http::HttpError& error) {
    return error.status();
  }
  return 200;
}

TEST(PerseusBrowserGuard, ClientsOfTheProtocolPass) {
  EXPECT_EQ(status({}), 200);
  EXPECT_EQ(status({{"content-type", "application/json"}, {"user-agent", "python-httpx/0.23.3"}}), 200);
}

TEST(PerseusBrowserGuard, OnlyTheLoopbackInterfaceIsNamedThere) {
  for (const char* host : {"127.0.0.1:7787", "127.0.0.1", "localhost:7787", "LOCALHOST", "[::1]:7787", "[::1]"}) {
    EXPECT_EQ(status({{"host", host}}), 200) << host;
  }
  for (const char* host : {"attacker.example:7787", "attacker.example", "localhost.attacker.example:7787", "1:2:3", "[",
                           "[]", "[::1", ":7787"}) {
    EXPECT_EQ(status({{"host", host}}), 403) << host;
  }
  EXPECT_EQ(status({{"host", "node0:7787"}}, false), 200);
}

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(PerseusRequestLog, HasALineForARequestAndItsResponse) {
  std::vector<std::string> lines;
  const auto fake = std::make_shared<FakeReply>();
  http::Request request;
  request.method = "GET";
  request.path = "/schedule/a";
  request.query = "rank=0";
  const auto reply = logged(request, fake, [&lines](const std::string& line) { lines.push_back(line); });
  EXPECT_TRUE(lines.empty()) << "not before its response";
  reply->send(http::json_response({{"rank", 0}}));
  EXPECT_EQ(fake->status(), 200);
  EXPECT_THAT(lines, ElementsAre(R"(GET /schedule/a?rank=0: none -> 200 {"rank":0})"));
}

TEST(PerseusRequestLog, KeepsLinesWholeAndShort) {
  std::string line;
  http::Request request;
  request.method = "POST";
  request.path = "/register_job";
  request.body = "{\n\x1b[31m" + std::string(10'000, 'x');
  const auto reply = logged(request, std::make_shared<FakeReply>(), [&line](const std::string& text) { line = text; });
  reply->send(http::Response::with_body(400, "text/plain", "no"));
  EXPECT_LT(line.size(), 700U);
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  EXPECT_THAT(line, HasSubstr(R"({\x0a\x1b[31mxx)"));
  EXPECT_THAT(line, HasSubstr("-> 400 no"));
}

TEST(PerseusRequestLog, PassesTheClientsEndOn) {
  const auto fake = std::make_shared<FakeReply>();
  const auto reply = logged({}, fake, [](const std::string& /*line*/) {});
  bool closed = false;
  reply->on_close([&closed] { closed = true; });
  fake->leave();
  EXPECT_TRUE(closed);
  EXPECT_TRUE(reply->closed());
}

}  // namespace

}  // namespace lowgear::server::perseus
