#include "control/server/parts/server_event.h"

#include <gtest/gtest.h>

#include <set>

namespace lowgear::server {
namespace {

TEST(ServerEvent, EachHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const NamedEvent& row : server_events()) {
    names.insert(row.name);
    EXPECT_EQ(name(row.event), row.name);
    ASSERT_NE(find_server_event(row.name), nullptr);
    EXPECT_EQ(find_server_event(row.name)->event, row.event);
  }
  EXPECT_EQ(names.size(), server_events().size());
  EXPECT_EQ(find_server_event("job"), nullptr);
}

}  // namespace
}  // namespace lowgear::server
