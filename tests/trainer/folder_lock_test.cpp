#include "trainer/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/error_of.h"
#include "core/file.h"
#include "core/ordinary_user.h"
#include "core/temporary_folder.h"

namespace lowgear {
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
}  // namespace lowgear
