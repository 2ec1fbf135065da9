#include "server/perseus/browser_guard.h"

#include <gtest/gtest.h>

#include <string>

#include "base/http/message/error.h"

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

}  // namespace
}  // namespace lowgear::server::perseus
