#include "base/http/message/endpoint.h"

#include <gtest/gtest.h>

#include "base/core/error.h"

namespace lowgear::http {

namespace {

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

}  // namespace

namespace {

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
