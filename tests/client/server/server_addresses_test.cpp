#include "client/server/server_addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear::client {
namespace {

std::vector<std::string> texts(const std::string& list) {
  std::vector<std::string> texts;
  for (const http::Endpoint& address : parse_server_addresses(list)) texts.push_back(address.text());
  return texts;
}

TEST(ServerAddresses, AreOneOrSeveral) {
  EXPECT_EQ(texts("http://a:1"), (std::vector<std::string>{"http://a:1"}));
  EXPECT_EQ(texts("http://a:1,unix:/run/b.sock,http://[::1]:3"),
            (std::vector<std::string>{"http://a:1", "unix:/run/b.sock", "http://[::1]:3"}));
  EXPECT_EQ(texts("unix:/run/a,b.sock,http://c:1"), (std::vector<std::string>{"unix:/run/a,b.sock", "http://c:1"}));
}

TEST(ServerAddresses, HaveAbsolutePathsForOtherFolders) {
  EXPECT_EQ(absolute_server_addresses("http://a:1,unix:state/b.sock,unix:/run/c.sock"),
            "http://a:1,unix:" + (std::filesystem::current_path() / "state/b.sock").string() + ",unix:/run/c.sock");
  EXPECT_EQ(absolute_server_addresses("unix:"), "unix:");
}

TEST(ServerAddresses, AreRefusedWhereOneIsNone) {
  for (const char* list : {"", ",", "http://a:1,", "http://a:1,b:2", "http://a:1,ftp://b:2", "http://a:0,http://b:1"}) {
    EXPECT_THROW((void)parse_server_addresses(list), InputError) << list;
  }
  std::string many = "http://a:1";
  for (int i = 0; i < 16; ++i) many += ",http://a:1";
  EXPECT_THAT(error_of([&] { (void)parse_server_addresses(many); }), testing::HasSubstr("at most 16"));
}

}  // namespace
}  // namespace lowgear::client
