#include "server/audit/audit_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class AuditFileTest : public testing::Test {
 protected:
  TemporaryFolder folder;
  std::filesystem::path path = folder / "audit.jsonl";
};

TEST_F(AuditFileTest, IsAppendedToAndOnlyItsOwnerReadsIt) {
  AuditFile({.path = path}).append("one\n");
  AuditFile({.path = path}).append("two\n");
  EXPECT_EQ(read_file(path), "one\ntwo\n");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
}

TEST_F(AuditFileTest, BecomesAnOlderOneWhenItIsFull) {
  AuditFile file({.path = path, .max_bytes = 8, .files = 3});
  for (const char* line : {"111\n", "222\n", "333\n", "444\n", "555\n", "666\n", "777\n"}) file.append(line);
  EXPECT_EQ(read_file(path), "777\n");
  EXPECT_EQ(read_file(folder / "audit.jsonl.1"), "555\n666\n");
  EXPECT_EQ(read_file(folder / "audit.jsonl.2"), "333\n444\n");
  EXPECT_THAT(folder.names(), ElementsAre("audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"));
}

TEST_F(AuditFileTest, MayBeTheOnlyOne) {
  AuditFile file({.path = path, .max_bytes = 8, .files = 1});
  for (const char* line : {"111\n", "222\n", "333\n"}) file.append(line);
  EXPECT_EQ(read_file(path), "333\n");
  EXPECT_THAT(folder.names(), ElementsAre("audit.jsonl"));
}

TEST_F(AuditFileTest, IsMadeAnewWhenAnotherProgramMovesItAway) {
  AuditFile file({.path = path});
  file.append("one\n");
  std::filesystem::rename(path, folder / "moved");
  file.append("two\n");
  EXPECT_EQ(read_file(folder / "moved"), "one\n");
  EXPECT_EQ(read_file(path), "two\n");
  std::filesystem::resize_file(path, 0);
  file.append("three\n");
  EXPECT_EQ(read_file(path), "three\n");
}

TEST_F(AuditFileTest, ALineThatACrashCutOffDoesNotSpoilTheNext) {
  write_file_atomically(path, "one\ntw");
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  AuditFile({.path = path}).append("three\n");
  EXPECT_EQ(read_file(path), "one\ntw\nthree\n");
}

TEST_F(AuditFileTest, NothingOfWhatCannotBeWrittenStays) {
  AuditFile file({.path = path});
  file.append("one\n");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 10;
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string error;
  try {
    file.append("a line that is too long for this disk\n");
  } catch (const Error& failure) {
    error = failure.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)std::signal(SIGXFSZ, old);
  EXPECT_THAT(error, HasSubstr("audit.jsonl"));
  EXPECT_EQ(read_file(path), "one\n");
  file.append("two\n");
  EXPECT_EQ(read_file(path), "one\ntwo\n");
}

TEST_F(AuditFileTest, IsRefusedWhereOthersCouldChangeIt) {
  std::filesystem::create_symlink(folder / "elsewhere", path);
  EXPECT_THAT(error_of([&] { AuditFile file({.path = path}); }), HasSubstr("audit log"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_NE(error_of([&] { AuditFile file({.path = path}); }), "no error");
  EXPECT_THAT(error_of([&] { AuditFile file({.path = folder / "none" / "a"}); }), HasSubstr("No such file"));
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  EXPECT_NE(error_of([&] { AuditFile file({.path = folder / "a"}); }), "no error");
}

}  // namespace
}  // namespace lowgear::server
