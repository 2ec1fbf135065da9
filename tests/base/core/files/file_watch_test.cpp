#include "base/core/files/file_watch.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear {
namespace {

TEST(FileWatch, ReportsAChangeOnceWhenItHasSettled) {
  const TemporaryFolder folder;
  const auto path = folder / "file";
  write_file_atomically(path, "one");
  FileWatch watch({path});
  EXPECT_FALSE(watch.changed());
  write_file_atomically(path, "two");
  EXPECT_FALSE(watch.changed()) << "it may still be written";
  EXPECT_TRUE(watch.changed());
  EXPECT_FALSE(watch.changed());
  write_file_atomically(path, "three");
  EXPECT_FALSE(watch.changed());
  write_file_atomically(path, "fourth");
  EXPECT_FALSE(watch.changed()) << "it changed once more";
  EXPECT_TRUE(watch.changed());
}

TEST(FileWatch, SeesAFileThatGoesAndComesBack) {
  const TemporaryFolder folder;
  const auto path = folder / "file";
  FileWatch watch({folder / "other", path});
  write_file_atomically(path, "one");
  EXPECT_FALSE(watch.changed());
  EXPECT_TRUE(watch.changed());
  std::filesystem::remove(path);
  EXPECT_FALSE(watch.changed());
  EXPECT_TRUE(watch.changed());
}

TEST(FileWatch, SeesThatALinkPointsElsewhere) {
  const TemporaryFolder folder;
  for (const char* name : {"old", "new"}) {
    std::filesystem::create_directory(folder / name);
    write_file_atomically(folder / name / "file", "x");
  }
  std::filesystem::create_symlink("old", folder / "now");
  FileWatch watch({folder / "now" / "file"});
  std::filesystem::remove(folder / "now");
  std::filesystem::create_symlink("new", folder / "now");
  EXPECT_FALSE(watch.changed());
  EXPECT_TRUE(watch.changed());
}

}  // namespace
}  // namespace lowgear
