#include "base/http/server/connection_table.h"

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

}  // namespace
}  // namespace lowgear::http
