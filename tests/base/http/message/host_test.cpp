#include "base/http/message/host.h"

#include <gtest/gtest.h>

namespace lowgear::http {
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
