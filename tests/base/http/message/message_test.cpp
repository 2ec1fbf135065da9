#include "base/http/message/message.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "base/core/error.h"

namespace lowgear::http {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::sys_days;
using std::chrono::sys_seconds;

/// Of RFC 9110's examples.
constexpr sys_seconds kExample = sys_days(std::chrono::year(1994) / 11 / 6) + 8h + 49min + 37s;
constexpr sys_seconds kNow = sys_days(std::chrono::year(2026) / 3 / 1) + 12h;
constexpr milliseconds kLongest = 600s;

milliseconds wait_of(const std::string& value, const std::string& date = {}) {
  Headers headers{{"retry-after", value}};
  if (!date.empty()) headers["date"] = date;
  return retry_after(headers, kLongest, kNow);
}

TEST(ParseDate, ReadsTheThreeForms) {
  EXPECT_EQ(parse_date("Sun, 06 Nov 1994 08:49:37 GMT"), kExample);
  EXPECT_EQ(parse_date("Sunday, 06-Nov-94 08:49:37 GMT"), kExample);
  EXPECT_EQ(parse_date("Sun Nov  6 08:49:37 1994"), kExample);
  EXPECT_EQ(parse_date("Sat, 29 Feb 2028 00:00:00 GMT"), sys_days(std::chrono::year(2028) / 2 / 29));
}

TEST(ParseDate, RefusesAnythingElse) {
  for (const char* text :
       {"", "tomorrow", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 31 Feb 2026 08:49:37 GMT",
        "Sun, 06 Noc 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 19945 08:49:37 GMT",
        "Sun, x6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT GMT", "Sun, 06 Nov 1994 :::::::: GMT"}) {
    EXPECT_EQ(parse_date(text), std::nullopt) << text;
  }
}

TEST(RetryAfter, IsSecondsOrADate) {
  EXPECT_EQ(wait_of("3"), 3s);
  EXPECT_EQ(wait_of("Sun, 01 Mar 2026 12:00:20 GMT"), 20s);
  EXPECT_EQ(retry_after({}, kLongest, kNow), 0s);
}

TEST(RetryAfter, CountsADateFromTheResponsesOwn) {
  EXPECT_EQ(wait_of("Sun, 01 Mar 2026 13:00:20 GMT", "Sun, 01 Mar 2026 13:00:00 GMT"), 20s);
  EXPECT_EQ(wait_of("Sun, 01 Mar 2026 12:00:20 GMT", "no date"), 20s);
}

TEST(RetryAfter, IsBounded) {
  EXPECT_EQ(wait_of("999999999"), kLongest);
  EXPECT_EQ(wait_of("Fri, 31 Dec 9999 23:59:59 GMT"), kLongest);
  EXPECT_EQ(wait_of("Sun, 01 Mar 2026 11:59:59 GMT"), 0s);
  for (const char* text : {"-5", "soon", "1e3", "99999999999999999999", ""}) EXPECT_EQ(wait_of(text), 0s) << text;
}

TEST(HttpEndpointTest, TakesTcpAndUnixSockets) {
  EXPECT_EQ(Endpoint::parse("http://node-1.example:8080").host, "node-1.example");
  EXPECT_EQ(Endpoint::parse("http://node-1.example:8080/").port, 8080);
  EXPECT_EQ(Endpoint::parse("http://node").port, 80);
  EXPECT_EQ(Endpoint::parse("http://[::1]:9").host, "::1");
  EXPECT_FALSE(Endpoint::parse("http://node").tls);
  EXPECT_TRUE(Endpoint::parse("https://node").tls);
  EXPECT_EQ(Endpoint::parse("https://node").port, 443);
  EXPECT_EQ(Endpoint::parse("https://node:80").port, 80);
  EXPECT_EQ(Endpoint::parse("http://[fe80::1%eth0]").host, "fe80::1%eth0");
  EXPECT_EQ(Endpoint::parse("unix:/run/lowgear/server.sock").unix_path, "/run/lowgear/server.sock");
}

TEST(HttpEndpointTest, ItsTextIsTakenAgain) {
  for (const char* text : {"http://host:1", "http://[::1]:65535", "https://host:443", "https://[::1]:1", "unix:/a b"}) {
    EXPECT_EQ(Endpoint::parse(text).text(), text);
  }
}

TEST(HttpEndpointTest, AnythingElseIsAnInputError) {
  for (const char* text : {"",
                           "host:80",
                           "http://",
                           "http://:80",
                           "http://host:",
                           "http://host:0",
                           "http://host:65536",
                           "http://host:80/path",
                           "http://user@host",
                           "http://a b",
                           "http://host:-1",
                           "http://host:8x",
                           "http://[::1",
                           "http://[::1]80",
                           "http://[]:80",
                           "https://",
                           "https://user:secret@host",
                           "https://host:443/path",
                           "unix:",
                           "unix:relative",
                           "http://a\r\nb",
                           "file:///a",
                           "ftp://host"}) {
    EXPECT_THROW((void)Endpoint::parse(text), InputError) << text;
  }
  EXPECT_EQ(Endpoint::parse("unix:/" + std::string(106, 'x')).unix_path.size(), 107U);
  EXPECT_THROW((void)Endpoint::parse("unix:/" + std::string(107, 'x')), InputError) << "no socket can be there";
}

TEST(Host, OfTheLoopbackInterface) {
  for (const char* host : {"localhost", "localhost:9400", "LocalHost:1", "127.0.0.1", "127.0.0.1:9400", "[::1]",
                           "[::1]:9400", "localhost:"}) {
    EXPECT_TRUE(names_loopback(host)) << host;
  }
}

TEST(Host, OfAnotherMachine) {
  for (const char* host : {"", "agent", "attacker.example", "attacker.example:9400", "localhost.attacker.example",
                           "127.0.0.1.attacker.example", "localhost:9400.attacker.example",
                           "localhost@attacker.example", "[::1].attacker.example", "[::1]attacker", "[::2]", "::1",
                           "10.0.0.1", "localhost, attacker", "localhost:1:2", ":9400", "]", ":"}) {
    EXPECT_FALSE(names_loopback(host)) << host;
  }
}

}  // namespace

}  // namespace lowgear::http
