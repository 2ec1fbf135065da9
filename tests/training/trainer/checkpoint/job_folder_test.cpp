#include "training/trainer/checkpoint/job_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/ordinary_user.h"
#include "base/core/temporary_folder.h"

namespace lowgear::trainer {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(FolderLock, TakesTheLockOfAnotherUserThatMayOnlyBeRead) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "lock", "");
  fs::permissions(folder / "lock", fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  fs::permissions(folder.path(), fs::perms::all);
  const OrdinaryUser user;
  const FolderLock lock(folder.path());
  EXPECT_THAT(error_of([&] { FolderLock{folder.path()}; }), HasSubstr("another training writes checkpoints here"));
}

TEST(FolderLock, NeedsAFolderInWhichFilesCanBeMade) {
  const TemporaryFolder folder;
  fs::permissions(folder.path(),
                  fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  const OrdinaryUser user;
  EXPECT_THAT(error_of([&] { FolderLock{folder.path()}; }),
              HasSubstr((folder / "lock").string() + ": cannot be written: Permission denied"));
}

}  // namespace
}  // namespace lowgear::trainer
