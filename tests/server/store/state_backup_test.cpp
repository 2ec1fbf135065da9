#include "server/store/state_backup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/eventually.h"
#include "base/core/files/file.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/temporary_folder.h"
#include "server/store/database.h"
#include "server/store/sqlite_store.h"
#include "server/store/state_folder.h"

namespace lowgear::server {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;
namespace fs = std::filesystem;

/// Change N is the decision N and two reports that say N.
StoreChange change_of(std::int64_t number) {
  StoreChange change;
  if (number == 0) change.jobs = {{"j-1", "run", "{}", "{}", 1, std::nullopt}};
  change.decisions = {{"j-1", number, 0, std::to_string(number)}};
  for (int rank = 0; rank < 2; ++rank) change.reports.push_back({"j-1", rank, number, number, std::to_string(number)});
  return change;
}

class StateBackupTest : public testing::Test {
 protected:
  [[nodiscard]] fs::path state() const { return folder_ / "state"; }
  [[nodiscard]] fs::path other() const { return folder_ / "other"; }
  [[nodiscard]] fs::path file() const { return folder_ / "backup"; }
  /// Outcomes are counted on the store's own thread: nothing has to run a loop.
  [[nodiscard]] static std::unique_ptr<SqliteStore> open(const fs::path& folder) {
    SqliteStoreOptions options;
    options.retention.iterations = options.retention.loaded_reports = options.retention.loaded_decisions = 1'000'000;
    return std::make_unique<SqliteStore>(
        folder, [](const std::function<void()>& function) { function(); }, options);
  }
  void write(int changes) {
    const auto store = open(state());
    for (int i = 0; i < changes; ++i) store->write(change_of(i), {});
  }
  [[nodiscard]] static std::size_t changes_in(const fs::path& folder) {
    const StoreContents contents = open(folder)->load();
    EXPECT_EQ(contents.reports.size(), 2 * contents.decisions.size()) << "a change is torn";
    return contents.decisions.size();
  }
  std::string backup_refusal(BackupKind kind = BackupKind::copy) const {
    return error_of<Error>([&] { (void)back_up({.state = state(), .file = file(), .kind = kind}); });
  }
  std::string restore_refusal() const {
    return error_of<Error>([&] { (void)restore({.file = file(), .state = other()}); });
  }
  void make_backup(BackupKind kind = BackupKind::copy) const {
    (void)back_up({.state = state(), .file = file(), .kind = kind});
  }
  /// What is in the folder of the backup.
  [[nodiscard]] std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) names.push_back(entry.path().filename().string());
    return names;
  }
  /// A database at `file()` made by these statements.
  void make_file(const char* sql) const { Database(file(), Database::Sharing::shared).execute(sql); }

  TemporaryFolder folder_;
};

TEST_F(StateBackupTest, IsRestoredElsewhereWithEverything) {
  write(10);
  const StateSummary summary = back_up({.state = state(), .file = file()});
  EXPECT_EQ(summary.open_jobs, 1);
  EXPECT_EQ(summary.finished_jobs, 0);
  EXPECT_EQ(summary.bytes, static_cast<std::int64_t>(fs::file_size(file())));
  struct stat status {};
  ASSERT_EQ(::stat(file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U) << "it holds the keys of ranks";
  EXPECT_EQ(restore({.file = file(), .state = other()}).open_jobs, 1);
  EXPECT_EQ(changes_in(other()), 10U);
  EXPECT_EQ(changes_in(state()), 10U) << "the original continues";
}

TEST_F(StateBackupTest, IsOneMomentOfAServerThatWrites) {
  const auto store = open(state());
  std::atomic<std::int64_t> acknowledged{-1};
  std::atomic<bool> stops{false};
  std::thread writer([&] {
    for (std::int64_t next = 0; !stops; ++next) {
      std::atomic<bool> done{false};
      store->write(change_of(next), [&](StoreOutcome outcome) {
        EXPECT_EQ(outcome, StoreOutcome::committed);
        acknowledged = next;
        done = true;
      });
      while (!done) std::this_thread::yield();
    }
  });
  for (int round = 0; round < 5; ++round) {
    while (acknowledged < 20 * (round + 1)) std::this_thread::yield();
    const std::int64_t before = acknowledged;
    const fs::path copy = folder_ / fmt::format("copy{}", round);
    const fs::path restored = folder_ / fmt::format("restored{}", round);
    (void)back_up({.state = state(), .file = copy});
    (void)restore({.file = copy, .state = restored});
    EXPECT_GT(static_cast<std::int64_t>(changes_in(restored)), before) << "acknowledged before, and not in it";
  }
  stops = true;
  writer.join();
}

TEST_F(StateBackupTest, NeverReplacesAFile) {
  write(1);
  write_file_atomically(file(), "mine");
  EXPECT_THAT(backup_refusal(), HasSubstr("backup: exists already; name a new file"));
  EXPECT_EQ(read_file(file()), "mine");
}

TEST_F(StateBackupTest, RemovesWhatAKilledOneHasLeft) {
  write(3);
  std::ofstream(folder_ / "unfinished-lowgear-backup.notes") << "a file of another name, as it has five letters";
  for (const char* name : {"unfinished-lowgear-backup.aB3dE6", "unfinished-lowgear-backup.aB3dE6-journal"}) {
    std::ofstream(folder_ / name) << "keys of ranks";
  }
  const fs::path at_work = folder_ / "unfinished-lowgear-backup.zzzzzz";
  const FileDescriptor other(::open(at_work.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_len = 1;
  ASSERT_EQ(::fcntl(other.get(), F_OFD_SETLK, &lock), 0);
  make_backup();
  EXPECT_THAT(entries(), UnorderedElementsAre("backup", "state", "unfinished-lowgear-backup.notes",
                                              "unfinished-lowgear-backup.zzzzzz"))
      << "but not what another backup writes at this time";
}

TEST_F(StateBackupTest, KilledAnywhereLeavesNothingToTheNextOne) {
  write(200);
  std::size_t left = 0;
  for (int round = 0; round < 40; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      while (true) {
        make_backup();
        (void)::unlink(file().c_str());
      }
    }
    // A kill anywhere: while it spins, another file appears all the time.
    ASSERT_TRUE(eventually([&] { return entries().size() > 1; }));
    for (int step = 0; step < round; ++step) (void)entries();
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    (void)::unlink(file().c_str());
    left += entries().size() - 1;
    make_backup();
    EXPECT_THAT(entries(), UnorderedElementsAre("backup", "state"));
    (void)::unlink(file().c_str());
  }
  EXPECT_GT(left, 0U) << "no kill came within a backup";
}

TEST_F(StateBackupTest, SaysWhatIsMissing) {
  EXPECT_THAT(backup_refusal(), AllOf(HasSubstr("No such file"), HasSubstr("--state")));
  fs::create_directory(state());
  EXPECT_THAT(backup_refusal(), HasSubstr("no server has kept its state here"));
  EXPECT_THAT(folder_.names(), ElementsAre("state")) << "nothing is left behind";
  EXPECT_THAT(restore_refusal(), HasSubstr("is not a file"));
}

TEST_F(StateBackupTest, ThatIsFinalEndsTheServiceOfItsFolder) {
  write(3);
  auto server = open(state());
  EXPECT_THAT(backup_refusal(BackupKind::final), HasSubstr(fmt::format("the server of process {}", ::getpid())));
  EXPECT_FALSE(fs::exists(file()));
  server.reset();
  make_backup(BackupKind::final);
  EXPECT_THAT(error_of<Error>([&] { (void)open(state()); }),
              AllOf(HasSubstr("have moved"), HasSubstr(file().string())));
  (void)restore({.file = file(), .state = other()});
  EXPECT_EQ(changes_in(other()), 3U);
  fs::remove(state() / "moved");  // as the message says
  EXPECT_EQ(changes_in(state()), 3U);
}

TEST_F(StateBackupTest, MovesBackToAFolderThatHasMovedAndKeepsWhatItHeld) {
  write(3);
  make_backup(BackupKind::final);
  (void)restore({.file = file(), .state = other()});
  open(other())->write(change_of(3), {});
  const fs::path back = folder_ / "back";
  (void)back_up({.state = other(), .file = back, .kind = BackupKind::final});
  (void)restore({.file = back, .state = state()});
  EXPECT_EQ(changes_in(state()), 4U);
  Database old(state() / "server.db.moved", Database::Sharing::shared, Database::Opening::read_only);
  EXPECT_EQ(old.integer("SELECT count(*) FROM decisions"), 3);
}

TEST_F(StateBackupTest, ReplacesNoDatabaseThatHasNotMoved) {
  write(3);
  make_backup();
  const auto running = open(other());
  EXPECT_THAT(restore_refusal(), HasSubstr("has a database already"));
  EXPECT_THAT(error_of<Error>([&] { (void)check_restore({.file = file(), .state = other()}); }),
              HasSubstr("has a database already"));
}

TEST_F(StateBackupTest, IsRefusedWhenDamaged) {
  write(200);
  make_backup();
  {
    std::fstream bytes(file(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(3 * 4096);
    bytes << std::string(4096, 'x');
  }
  EXPECT_THAT(restore_refusal(), HasSubstr("backup: "));
  fs::resize_file(file(), 5000);
  EXPECT_THAT(restore_refusal(), HasSubstr("backup: "));
  write_file_atomically(file(),
                        "no database at all, but as long as its header of a hundred bytes: " + std::string(99, '-'));
  EXPECT_THAT(restore_refusal(), HasSubstr("name a file that `lowgear serve backup` wrote"));
  EXPECT_FALSE(fs::exists(other())) << "nothing is changed";
}

TEST_F(StateBackupTest, IsRefusedWithoutItsDigest) {
  write(3);
  make_backup();
  const auto whole_bytes = fs::file_size(file());
  EXPECT_EQ(backup_seal(file()), BackupSeal::whole);
  fs::resize_file(file(), whole_bytes - 1);
  EXPECT_THAT(restore_refusal(), HasSubstr("its end is missing"));
  fs::resize_file(file(), whole_bytes - whole_bytes % 4096);
  EXPECT_THAT(restore_refusal(), HasSubstr("its end is missing"));
  EXPECT_FALSE(fs::exists(other()));
}

TEST_F(StateBackupTest, ListsRowsThatCannotBeRead) {
  write(3);
  const UnreadableRows two = [](const StoreContents& contents) {
    EXPECT_EQ(contents.decisions.size(), 3U);
    return std::vector<std::string>{"job j-1: one", "job j-1: another"};
  };
  const std::string refusal =
      error_of<Error>([&] { (void)back_up({.state = state(), .file = file(), .unreadable = two}); });
  EXPECT_THAT(refusal, AllOf(HasSubstr("\n  job j-1: one\n  job j-1: another"), HasSubstr("copy its folder")));
  EXPECT_FALSE(fs::exists(file()));
  make_backup();
  EXPECT_THAT(error_of<Error>([&] { (void)restore({.file = file(), .state = other(), .unreadable = two}); }),
              AllOf(HasSubstr("\n  job j-1: one"), HasSubstr("use another backup")));
  EXPECT_FALSE(fs::exists(other()));
}

TEST_F(StateBackupTest, IsRefusedWhenOfAnotherProgramOrAnotherSchema) {
  make_file("CREATE TABLE cats (name TEXT)");
  EXPECT_THAT(restore_refusal(), HasSubstr("another program"));
  fs::remove(file());
  make_file("PRAGMA user_version = 0");
  EXPECT_THAT(restore_refusal(), HasSubstr("an empty database"));
  fs::remove(file());
  write(1);
  make_backup();
  make_file("PRAGMA user_version = 99");
  fs::resize_file(file(), fs::file_size(file()) / 4096 * 4096);
  seal_backup(file());
  EXPECT_THAT(restore_refusal(), AllOf(HasSubstr("has version 99"), HasSubstr("use the lowgear that wrote it")));
  EXPECT_FALSE(fs::exists(other()));
}

TEST_F(StateBackupTest, RefusesACopyOfFilesInUse) {
  write(1);
  make_backup();
  write_file_atomically(file().string() + "-wal", "log");
  EXPECT_THAT(restore_refusal(), HasSubstr("use `lowgear serve backup`"));
}

TEST_F(StateBackupTest, CheckedAloneChangesNothing) {
  write(1);
  const std::vector<std::string> before = folder_.names();
  EXPECT_EQ(check_backup({.state = state(), .file = file()}).open_jobs, 1);
  EXPECT_EQ(folder_.names(), before);
  make_backup();
  const std::vector<std::string> with_backup = folder_.names();
  EXPECT_EQ(check_restore({.file = file(), .state = other()}).open_jobs, 1);
  EXPECT_EQ(check_backup({.state = state(), .file = other(), .kind = BackupKind::final}).open_jobs, 1);
  EXPECT_EQ(folder_.names(), with_backup);
}

}  // namespace
}  // namespace lowgear::server
