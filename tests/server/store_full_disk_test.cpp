#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "server/store/database.h"
#include "server/store/sqlite_store.h"
#include "server/store/state_backup.h"
#include "server/test_loop.h"

namespace lowgear::server {
namespace {

namespace fs = std::filesystem;

constexpr int kNotAllowed = 77;
constexpr int kFailed = 1;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

/// A mount namespace of our own, and a user namespace where that is what it takes.
bool enter_namespace() {
  if (::unshare(CLONE_NEWNS) != 0) {
    const uid_t uid = ::geteuid();
    const gid_t gid = ::getegid();
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << fmt::format("{0} {0} 1", uid);
    std::ofstream("/proc/self/gid_map") << fmt::format("{0} {0} 1", gid);
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

/// Runs a scenario in a process of its own on a small disk in the folder, which goes with the process.
int on_small_disk(const fs::path& folder, const std::function<void()>& scenario) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (!enter_namespace() || ::mount("none", folder.c_str(), "tmpfs", 0, "size=1m,mode=0700") != 0) {
      ::_exit(kNotAllowed);
    }
    try {
      scenario();
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      ::_exit(kFailed);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kFailed;
}

void fill(const fs::path& folder) {
  std::ofstream file(folder / "filler", std::ios::binary);
  while (file << std::string(4096, 'x') && file.flush()) {
  }
}

class StoreOnDisk {
 public:
  explicit StoreOnDisk(fs::path folder) : folder_(std::move(folder)) {}

  void open() {
    close();
    store_.emplace(folder_, loop_.post());
  }
  void close() { store_.reset(); }
  StoreOutcome write(const std::string& key, std::size_t bytes) {
    std::optional<StoreOutcome> outcome;
    StoreChange change;
    change.documents = {{key, std::string(bytes, 'd')}};
    store_->write(std::move(change), [&](StoreOutcome said) { outcome = said; });
    require(loop_.run_until([&] { return outcome.has_value(); }), "the store does not answer");
    return *outcome;
  }
  SqliteStore& store() { return *store_; }

 private:
  fs::path folder_;
  TestLoop loop_;
  std::optional<SqliteStore> store_;
};

void expect_on_small_disk(const std::function<void(const fs::path&)>& scenario) {
  const TemporaryFolder folder;
  const int status = on_small_disk(folder.path(), [&] { scenario(folder.path()); });
  if (status == kNotAllowed) GTEST_SKIP() << "NOT TESTED: a disk of our own needs the right to mount";
  EXPECT_EQ(status, 0);
}

TEST(StoreFullDisk, RefusesWhatDoesNotFitAndContinuesOnceThereIsRoom) {
  expect_on_small_disk([](const fs::path& disk) {
    StoreOnDisk writer(disk / "state");
    writer.open();
    require(writer.write("before", 100) == StoreOutcome::committed, "an empty disk takes a change");
    fill(disk);
    int committed = 0;
    StoreOutcome outcome = StoreOutcome::committed;
    for (; committed < 100; ++committed) {  // the log has some room left
      outcome = writer.write(fmt::format("small {}", committed), 4000);
      if (outcome != StoreOutcome::committed) break;
    }
    require(outcome == StoreOutcome::disk_full, "a full disk is told");
    require(writer.store().statistics().disk_full, "the statistics say so");
    require(writer.write("large", 500'000) == StoreOutcome::disk_full, "it still is full");
    require(writer.store().load().documents.size() == static_cast<std::size_t>(committed) + 1, "what fitted is there");
    fs::remove(disk / "filler");
    require(writer.write("after", 4000) == StoreOutcome::committed, "it goes on by itself");
    require(!writer.store().statistics().disk_full, "the statistics say so, too");
    writer.open();
    require(writer.store().load().documents.size() == static_cast<std::size_t>(committed) + 2, "all of it is kept");
  });
}

TEST(StoreFullDisk, OpensOnAFullDiskToServeWhatIsThere) {
  expect_on_small_disk([](const fs::path& disk) {
    StoreOnDisk writer(disk / "state");
    writer.open();
    require(writer.write("before", 100) == StoreOutcome::committed, "an empty disk takes a change");
    writer.close();
    fill(disk);
    writer.open();
    require(writer.store().load().documents.size() == 1, "what was written is there");
    require(writer.write("more", 100) == StoreOutcome::disk_full, "nothing more fits");
    fs::remove(disk / "filler");
    require(writer.write("after", 100) == StoreOutcome::committed, "it goes on by itself");
  });
}

TEST(StoreFullDisk, OpensANewFolderOnceThereIsRoom) {
  expect_on_small_disk([](const fs::path& disk) {
    const fs::path state = disk / "state";
    fs::create_directory(state);
    fs::permissions(state, fs::perms::owner_all);
    fill(disk);
    StoreOnDisk server(state);
    bool refused = false;
    try {
      server.open();
    } catch (const Error&) {
      refused = true;
    }
    require(refused, "tables that do not fit are refused");
    fs::remove(disk / "filler");
    server.open();
    require(server.write("row", 100) == StoreOutcome::committed, "nothing half made is in the way");
  });
}

TEST(StoreFullDisk, LeavesNothingOfABackupOrOfARestorationThatDoesNotFit) {
  const TemporaryFolder roomy;
  expect_on_small_disk([&](const fs::path& disk) {
    StoreOnDisk server(roomy / "state");
    server.open();
    require(server.write("large", 900'000) == StoreOutcome::committed, "there is room elsewhere");
    server.close();
    (void)back_up({.state = roomy / "state", .file = roomy / "backup"});
    fill(disk);
    const auto refuses = [](const std::function<void()>& action) {
      try {
        action();
      } catch (const Error&) {
        return true;
      }
      return false;
    };
    require(refuses([&] { (void)back_up({.state = roomy / "state", .file = disk / "backup"}); }),
            "no room for a backup");
    require(refuses([&] { (void)restore({.file = roomy / "backup", .state = disk / "state"}); }), "nor for a state");
    fs::remove(disk / "filler");
    require(fs::is_empty(disk), "nothing is left");
  });
}

}  // namespace
}  // namespace lowgear::server
