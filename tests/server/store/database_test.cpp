#include "server/store/database.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::server {

namespace {

using testing::HasSubstr;

class DatabaseTest : public testing::Test {
 protected:
  DatabaseTest() : database_(folder_ / "a.db", Database::Sharing::shared) {
    database_.execute("CREATE TABLE t (k TEXT PRIMARY KEY NOT NULL, i INTEGER, d REAL)");
  }
  [[nodiscard]] std::int64_t rows() { return database_.integer("SELECT count(*) FROM t"); }

  template <typename Action>
  static DatabaseFault fault_of(Action action) {
    try {
      action();
    } catch (const DatabaseError& error) {
      return error.fault();
    }
    ADD_FAILURE() << "an error was expected";
    return DatabaseFault::other;
  }

  TemporaryFolder folder_;
  Database database_;
};

TEST_F(DatabaseTest, GivesBackWhatWasBound) {
  Statement put(database_, "INSERT INTO t VALUES (?1, ?2, ?3)");
  const std::string odd("a\0b\xC3\xA4", 5);
  put.execute(odd, std::numeric_limits<std::int64_t>::min(), std::optional<double>(0.1));
  put.execute(std::string_view(), 7, std::optional<double>());
  Statement get(database_, "SELECT k, i, d FROM t ORDER BY i");
  Statement::Rows rows = get.query();
  ASSERT_TRUE(rows.next());
  EXPECT_EQ(rows.text(0), odd);
  EXPECT_EQ(rows.integer(1), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(rows.optional_number(2), 0.1);
  ASSERT_TRUE(rows.next());
  EXPECT_EQ(rows.text(0), "");
  EXPECT_EQ(rows.small_integer(1), 7);
  EXPECT_EQ(rows.optional_number(2), std::nullopt);
  EXPECT_FALSE(rows.next());
}

TEST_F(DatabaseTest, RunsAStatementAgainAfterItFailed) {
  Statement put(database_, "INSERT INTO t VALUES (?1, ?2, NULL)");
  EXPECT_EQ(put.execute("a", 1), 1);
  EXPECT_EQ(fault_of([&] { put.execute("a", 2); }), DatabaseFault::constraint);
  EXPECT_EQ(put.execute("b", 2), 1);
  EXPECT_EQ(rows(), 2);
}

TEST_F(DatabaseTest, UndoesWhatIsNotCommitted) {
  Statement put(database_, "INSERT INTO t VALUES (?1, 0, 0)");
  {
    Transaction transaction(database_);
    put.execute("a");
  }
  EXPECT_EQ(rows(), 0);
  {
    Transaction transaction(database_);
    put.execute("a");
    {
      Savepoint part(database_);
      put.execute("b");
    }
    Savepoint part(database_);
    put.execute("c");
    part.keep();
    transaction.commit();
  }
  EXPECT_EQ(database_.integer("SELECT group_concat(k, '') = 'ac' FROM t"), 1);
}

TEST_F(DatabaseTest, NamesTheFileAndWhatIsWrong) {
  try {
    database_.execute("SELECT * FROM missing");
    ADD_FAILURE() << "an error was expected";
  } catch (const DatabaseError& error) {
    EXPECT_THAT(error.what(), HasSubstr((folder_ / "a.db").string() + ": no such table: missing"));
    EXPECT_EQ(error.fault(), DatabaseFault::other);
  }
}

TEST_F(DatabaseTest, TellsADamagedFile) {
  const auto path = folder_ / "text.db";
  write_file_atomically(path, std::string(8192, 'x'));
  EXPECT_EQ(fault_of([&] {
              Database other(path, Database::Sharing::shared);
              (void)other.integer("PRAGMA user_version");
            }),
            DatabaseFault::damaged);
}

TEST_F(DatabaseTest, TellsAFileThatCannotBeOpened) {
  EXPECT_EQ(fault_of([&] { Database other(folder_ / "missing" / "a.db", Database::Sharing::shared); }),
            DatabaseFault::other);
}

using testing::AllOf;

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
       {"PRAGMA user_version = 6", "PRAGMA user_version = 99", "PRAGMA user_version = -1", "PRAGMA user_version = 0"}) {
    database_.execute(version);
    EXPECT_THAT(error_of([&] { require_schema(database_); }),
                AllOf(HasSubstr("server.db: has version"), HasSubstr("reads version 7 alone"),
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
