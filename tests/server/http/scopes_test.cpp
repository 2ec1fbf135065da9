#include "server/http/scopes.h"

#include <gtest/gtest.h>

namespace lowgear::server {
namespace {

TEST(Scopes, AreReadAndWritten) {
  for (const char* text : {"read", "jobs", "operate", "read,jobs", "read,operate", "jobs,operate", "read,jobs,operate",
                           "node", "read,node"}) {
    const auto scopes = parse_scopes(text);
    ASSERT_TRUE(scopes) << text;
    EXPECT_EQ(to_string(*scopes), text);
  }
  EXPECT_EQ(to_string(*parse_scopes("operate,read")), "read,operate");
  EXPECT_EQ(to_string(*parse_scopes("train")), "read,jobs") << "a role of older files";
  EXPECT_EQ(to_string(*parse_scopes("admin")), "read,jobs,operate") << "a node is bound to its name";
  for (const char* text :
       {"", ",", "read,", ",read", "read,read", "READ", "read jobs", "train,read", "admin,read", "all"}) {
    EXPECT_FALSE(parse_scopes(text)) << text;
  }
}

TEST(Scopes, IncludeNoOthers) {
  EXPECT_FALSE(Scopes({Scope::operate}).contain(Scope::read));
  EXPECT_FALSE(Scopes({Scope::operate}).contain(Scope::jobs));
  EXPECT_TRUE(Scopes().empty());
}

}  // namespace
}  // namespace lowgear::server
