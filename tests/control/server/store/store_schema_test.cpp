#include "control/server/store/store_schema.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <exception>
#include <random>
#include <string>
#include <thread>

#include "base/core/error_of.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"
#include "control/protocol/job_spec.h"
#include "control/server/planning/measured_profile.h"

namespace lowgear::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::array<const char*, 3> kSteps = {
    "CREATE TABLE jobs (id TEXT); INSERT INTO jobs VALUES ('j-1')",
    "ALTER TABLE jobs ADD COLUMN note TEXT NOT NULL DEFAULT 'none'",
    "CREATE TABLE more (x INTEGER); INSERT INTO more SELECT count(*) FROM jobs",
};

class StoreSchemaTest : public testing::Test {
 protected:
  [[nodiscard]] Database open() { return Database(folder_ / "server.db", Database::Sharing::shared); }
  [[nodiscard]] static std::span<const char* const> steps(std::size_t count) {
    return std::span<const char* const>(kSteps).first(count);
  }

  TemporaryFolder folder_;
};

TEST_F(StoreSchemaTest, MakesANewFile) {
  Database database = open();
  migrate(database, store_schema_steps());
  EXPECT_EQ(database.integer("PRAGMA user_version"), static_cast<std::int64_t>(store_schema_steps().size()));
  EXPECT_EQ(database.integer("SELECT count(*) FROM jobs"), 0);
  migrate(database, store_schema_steps());  // nothing more to do
}

TEST_F(StoreSchemaTest, BringsAnOlderFileForwardWithWhatIsInIt) {
  for (std::size_t from = 1; from < kSteps.size(); ++from) {
    const TemporaryFolder folder;
    Database database(folder / "server.db", Database::Sharing::shared);
    migrate(database, steps(from));
    database.execute("INSERT INTO jobs (id) VALUES ('j-2')");
    migrate(database, kSteps);
    EXPECT_EQ(database.integer("PRAGMA user_version"), 3);
    EXPECT_EQ(database.integer("SELECT count(*) FROM jobs WHERE note = 'none'"), 2);
    EXPECT_EQ(database.integer("SELECT x FROM more"), 2);
  }
}

TEST_F(StoreSchemaTest, DoesAllStepsOrNone) {
  Database database = open();
  migrate(database, steps(1));
  const std::array<const char*, 3> broken = {kSteps[0], kSteps[1],
                                             "CREATE TABLE extra (x); INSERT INTO nowhere VALUES (1)"};
  EXPECT_THROW(migrate(database, broken), DatabaseError);
  EXPECT_EQ(database.integer("PRAGMA user_version"), 1) << "the lowgear that wrote it still reads it";
  EXPECT_EQ(database.integer("SELECT count(*) FROM pragma_table_info('jobs')"), 1);
  EXPECT_EQ(database.integer("SELECT count(*) FROM sqlite_schema WHERE name = 'extra'"), 0);
  migrate(database, kSteps);
  EXPECT_EQ(database.integer("PRAGMA user_version"), 3);
}

/// Files of version 2 did not tell simulated GPUs in the keys of profiles.
TEST_F(StoreSchemaTest, KeepsProfilesOfSimulatedGpusApart) {
  Database database = open();
  migrate(database, store_schema_steps().first(2));
  const auto put = [&](const std::string& key, const std::string& document) {
    database.execute(fmt::format("INSERT INTO documents VALUES ('{}', '{}')", key, document).c_str());
  };
  const auto has = [&](const std::string& key) {
    return database.integer(fmt::format("SELECT count(*) FROM documents WHERE key = '{}'", key).c_str()) == 1;
  };
  protocol::JobSpec spec;
  for (const char* model : {"simulated", "real"}) {
    spec.model = model;
    Json old_key = Json::parse(spec.profile_key(false));
    old_key.erase("simulated");
    MeasuredProfile profile;
    profile.simulated = spec.model == "simulated";
    put("profile/" + old_key.dump(), write_measured_profile(profile));
  }
  put("profile/{}", "damaged");
  put("signal/{}", R"({"simulated": true})");
  migrate(database, store_schema_steps());
  spec.model = "simulated";
  EXPECT_TRUE(has("profile/" + spec.profile_key(true)));
  spec.model = "real";
  EXPECT_TRUE(has("profile/" + spec.profile_key(false)));
  EXPECT_TRUE(has("profile/{}"));
  EXPECT_TRUE(has("signal/{}"));
  EXPECT_EQ(database.integer("SELECT count(*) FROM documents"), 4);
}

/// A file of version 1 with so many jobs.
void make_first_version(const std::filesystem::path& path, int jobs) {
  Database database(path, Database::Sharing::shared);
  migrate(database, store_schema_steps().first(1));
  database.execute(
      fmt::format("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) INSERT INTO "
                  "jobs SELECT 'j-' || i, 'run ' || i, hex(zeroblob(200)), '{{}}', i, NULL FROM n",
                  jobs)
          .c_str());
}

/// Opens and migrates in a process of its own, which is killed so soon. False when it came to its end before.
bool is_killed_while_migrating(const std::filesystem::path& path, std::chrono::microseconds after) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    try {
      Database database(path, Database::Sharing::shared);
      migrate(database, store_schema_steps());
    } catch (const std::exception&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  std::this_thread::sleep_for(after);
  ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status);
}

TEST_F(StoreSchemaTest, ThatIsKilledLeavesTheOldVersionOrTheNewOne) {
  constexpr int kJobs = 3'000;
  const auto newest = static_cast<std::int64_t>(store_schema_steps().size());
  std::mt19937_64 random(1);
  int killed = 0;
  for (int round = 0; round < 15; ++round) {
    const std::filesystem::path path = folder_ / fmt::format("{}.db", round);
    make_first_version(path, kJobs);
    const std::chrono::microseconds after(std::uniform_int_distribution<int>(0, 40'000)(random));
    if (is_killed_while_migrating(path, after)) ++killed;
    Database database(path, Database::Sharing::shared);
    const std::int64_t version = database.integer("PRAGMA user_version");
    EXPECT_TRUE(version == 1 || version == newest) << version;
    EXPECT_EQ(database.damage(), "");
    EXPECT_EQ(database.integer("SELECT count(*) FROM jobs"), kJobs);
    EXPECT_EQ(database.integer("SELECT count(*) FROM sqlite_schema WHERE name IN ('jobs_2', 'archives')"),
              version == 1 ? 0 : 1);
    migrate(database, store_schema_steps());
    EXPECT_EQ(database.integer("SELECT count(*) FROM jobs"), kJobs);
  }
  EXPECT_GT(killed, 0);
}

TEST_F(StoreSchemaTest, RefusesTheFileOfANewerLowgear) {
  Database database = open();
  migrate(database, kSteps);
  EXPECT_THAT(error_of([&] { migrate(database, steps(2)); }),
              AllOf(HasSubstr("server.db: has version 3"), HasSubstr("knows up to 2")));
}

TEST_F(StoreSchemaTest, RefusesTheFileOfAnotherProgramAndLeavesItAsItIs) {
  Database database = open();
  database.execute("CREATE TABLE cats (name TEXT)");
  EXPECT_THAT(error_of([&] { migrate(database, kSteps); }), HasSubstr("another program"));
  EXPECT_EQ(database.integer("SELECT count(*) FROM sqlite_schema"), 1);
  EXPECT_EQ(database.integer("SELECT journal_mode = 'delete' FROM pragma_journal_mode"), 1);
}

}  // namespace
}  // namespace lowgear::server
