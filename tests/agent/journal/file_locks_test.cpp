#include "agent/journal/file_locks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "hardware/gpu/fake_gpu.h"

namespace lowgear::agent {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

TEST(MachineLock, IsThatOfTheMachineAndNotOfAnAgent) {
  EXPECT_EQ(machine_lock_path(gpu::FakeGpuSystem(1)), "/run/lowgear/machine.lock");
}

TEST(MachineLock, IsHeldByOneProcessWhichItNames) {
  const TemporaryFolder folder;
  const fs::path path = folder / "run/machine.lock";
  {
    const LockFile first = hold_machine(path, "/somewhere/agent.sock");
    EXPECT_EQ(fs::status(folder / "run").permissions(), fs::perms(0755));
    EXPECT_THAT(
        error_of([&] { (void)hold_machine(path, {}); }),
        AllOf(HasSubstr(fmt::format("another agent (process {}, which answers at /somewhere/agent.sock)", ::getpid())),
              HasSubstr("end that one first"), HasSubstr(path.string())));
    EXPECT_THROW((void)hold_machine(path, {}), MachineHeld);
  }
  const LockFile second = hold_machine(path, {});
  EXPECT_THAT(error_of([&] { (void)hold_machine(path, {}); }),
              HasSubstr(fmt::format("another agent (process {}) may", ::getpid())));
}

TEST(MachineLock, SaysWhenItsFolderCannotBeMade) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { (void)hold_machine(folder / "no/such/lock", {}); }), HasSubstr("No such file"));
}

TEST(LockFile, IsHeldByWhomeverItNamesOrNot) {
  const TemporaryFolder folder;
  LockFile first(folder / "lock");
  ASSERT_FALSE(first.take({.pid = 7, .control_socket = "/a b/agent.sock"}));
  LockFile second(folder / "lock");
  std::optional<LockHolder> holder = second.take({.pid = 8, .control_socket = {}});
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->pid, 7);
  EXPECT_EQ(holder->control_socket, "/a b/agent.sock");
  ASSERT_EQ(::truncate((folder / "lock").c_str(), 3), 0);
  holder = second.take({.pid = 8, .control_socket = {}});
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->pid, 0);
  EXPECT_EQ(describe(*holder), "another agent");
}

TEST(LockFile, IsNoSymbolicLink) {
  const TemporaryFolder folder;
  fs::create_symlink("/etc/passwd", folder / "lock");
  EXPECT_THAT(error_of([&] { LockFile lock(folder / "lock"); }), HasSubstr("the lock cannot be opened"));
}

}  // namespace
}  // namespace lowgear::agent
