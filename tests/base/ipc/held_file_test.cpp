#include "base/ipc/held_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::ipc {
namespace {

FileDescriptor open_to_hold(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_TRUE(file);
  return file;
}

TEST(HeldFile, TellsOthersWhoHasIt) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "lock";
  std::ofstream(path) << "a holder whose name is longer";
  {
    const FileDescriptor first = open_to_hold(path);
    EXPECT_EQ(hold_file(first, "the first\n").outcome, FileHold::Outcome::held);
    const FileDescriptor second = open_to_hold(path);
    const FileHold refused = hold_file(second, "the second\n");
    EXPECT_EQ(refused.outcome, FileHold::Outcome::taken);
    EXPECT_EQ(refused.holder, "the first\n");
    EXPECT_EQ(read_file(path), "the first\n");
  }
  const FileDescriptor third = open_to_hold(path);
  EXPECT_EQ(hold_file(third, "3").outcome, FileHold::Outcome::held);
  EXPECT_EQ(read_file(path), "3");
}

TEST(HeldFile, IsHeldByNobodyKnownWhereItCannotBeWritten) {
  const TemporaryFolder folder;
  const FileDescriptor file = open_to_hold(folder / "lock");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 4, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const FileHold hold = hold_file(file, "process 1234567\n");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)std::signal(SIGXFSZ, handler);
  EXPECT_EQ(hold.outcome, FileHold::Outcome::held);
  const FileDescriptor other = open_to_hold(folder / "lock");
  const FileHold refused = hold_file(other, "other");
  EXPECT_EQ(refused.outcome, FileHold::Outcome::taken);
  EXPECT_EQ(refused.holder, "");
}

}  // namespace
}  // namespace lowgear::ipc
