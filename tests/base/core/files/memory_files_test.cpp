#include "base/core/files/memory_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(MemoryFiles, AreReadByTheirNames) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "b.csv", "disk");
  const MemoryFiles files({{"a.csv", "text"}, {"plan/x.json", "{}"}, {"plan/orders/y.json", "{}"}}, {});
  EXPECT_EQ(read_file("a.csv"), "text");
  EXPECT_EQ(read_file(folder / "b.csv"), "disk");
  EXPECT_TRUE(file_exists("plan/x.json"));
  EXPECT_TRUE(file_exists(folder / "b.csv"));
  EXPECT_FALSE(file_exists("plan"));
  EXPECT_THAT(files_in("plan"), ElementsAre("plan/x.json"));
  EXPECT_THAT(files_in(folder.path()), ElementsAre(folder / "b.csv"));
}

TEST(MemoryFiles, HideTheFolderOfTheirNameOnTheDisk) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "plan");
  write_file_atomically(folder / "plan/frontier.csv", "disk");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  {
    const MemoryFiles files({{"plan/run.json", "{}"}}, {});
    EXPECT_FALSE(file_exists("plan/frontier.csv"));
    EXPECT_THROW((void)read_file("plan/frontier.csv"), InputError);
    EXPECT_THAT(files_in("plan"), ElementsAre("plan/run.json"));
    EXPECT_TRUE(file_exists(folder / "plan/frontier.csv")) << "named from the root, it is the disk's";
  }
  EXPECT_TRUE(file_exists("plan/frontier.csv"));
  std::filesystem::current_path(before);
}

TEST(MemoryFiles, LeaveStandardInputToTheirCaller) {
  const MemoryFiles files({}, {});
  EXPECT_THROW((void)read_file("-"), InputError);
}

TEST(MemoryFiles, AreReadWithTheLimitsOfFiles) {
  const MemoryFiles files({{"a.csv", "12345"}, {"archive", "PK\x03\x04"}}, {});
  EXPECT_THROW((void)read_file("a.csv", 4), InputError);
  EXPECT_THROW((void)read_file("archive"), InputError);
}

TEST(MemoryFiles, KeepOutputsOfTheirNames) {
  const TemporaryFolder folder;
  MemoryFiles files({}, {"out", "trace.json"});
  check_writable("trace.json");
  write_file_atomically("trace.json", "trace");
  write_file_atomically(folder / "trace.json", "disk");
  StagedDirectory directory("out", "run.json");
  directory.write("plans/0.json", "plan");
  directory.commit();
  EXPECT_THAT(files.written(), ElementsAre(Pair("out/plans/0.json", "plan"), Pair("trace.json", "trace")));
  EXPECT_EQ(read_file(folder / "trace.json"), "disk");
}

TEST(MemoryFiles, AreThoseOfTheirThread) {
  const MemoryFiles files({{"a.csv", "text"}}, {});
  std::thread([] {
    EXPECT_FALSE(file_exists("a.csv"));
    const MemoryFiles own({{"a.csv", "other"}}, {});
    EXPECT_EQ(read_file("a.csv"), "other");
  }).join();
  EXPECT_EQ(read_file("a.csv"), "text");
}

TEST(MemoryFiles, EndWithTheirObject) {
  const MemoryFiles outer({{"a.csv", "outer"}}, {});
  {
    const MemoryFiles inner({{"b.csv", "inner"}}, {});
    EXPECT_FALSE(file_exists("a.csv"));
  }
  EXPECT_TRUE(file_exists("a.csv"));
  EXPECT_FALSE(file_exists("b.csv"));
}

}  // namespace
}  // namespace lowgear
