#include "server/store/store_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"
#include "base/core/temporary_folder.h"

namespace lowgear::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class StoreSchemaTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  Database database_{folder_ / "server.db", Database::Sharing::shared};
};

TEST_F(StoreSchemaTest, MakesANewFileOnce) {
  EXPECT_FALSE(has_schema(database_));
  require_schema(database_);
  EXPECT_TRUE(has_schema(database_));
  EXPECT_EQ(database_.integer("PRAGMA user_version"), kStoreSchema);
  database_.execute("INSERT INTO jobs VALUES ('j-1', 'run', '{}', '{}', 1, NULL)");
  require_schema(database_);
  EXPECT_EQ(database_.integer("SELECT count(*) FROM jobs"), 1);
}

TEST_F(StoreSchemaTest, RefusesAnotherSchemaAndSaysWhatToDo) {
  require_schema(database_);
  for (const char* version :
       {"PRAGMA user_version = 5", "PRAGMA user_version = 99", "PRAGMA user_version = -1", "PRAGMA user_version = 0"}) {
    database_.execute(version);
    EXPECT_THAT(error_of([&] { require_schema(database_); }),
                AllOf(HasSubstr("server.db: has version"), HasSubstr("reads version 6 alone"),
                      HasSubstr("use the lowgear that wrote it")));
  }
}

TEST_F(StoreSchemaTest, RefusesTheFileOfAnotherProgramAndLeavesItAsItIs) {
  database_.execute("CREATE TABLE cats (name TEXT)");
  EXPECT_THAT(error_of([&] { require_schema(database_); }), HasSubstr("another program"));
  EXPECT_EQ(database_.integer("SELECT count(*) FROM sqlite_schema"), 1);
  EXPECT_EQ(database_.integer("SELECT journal_mode = 'delete' FROM pragma_journal_mode"), 1);
}

}  // namespace
}  // namespace lowgear::server
