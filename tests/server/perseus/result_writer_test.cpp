#include "server/perseus/result_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::server::perseus {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class PerseusResultWriterTest : public testing::Test {
 protected:
  [[nodiscard]] ResultWriter writer(std::size_t max_kept_bytes = 1000) {
    return {ResultFolder(folder_ / "dump"), [this](const std::string& text) { warnings_.push_back(text); },
            max_kept_bytes};
  }
  /// A job's folder cannot be made while a file has its name.
  void block(const std::string& job) { write_file_atomically(folder_ / "dump" / job, ""); }
  void unblock(const std::string& job) { fs::remove(folder_ / "dump" / job); }
  [[nodiscard]] std::string text(const std::string& path) const { return read_file(folder_ / "dump" / path); }

  TemporaryFolder folder_;
  std::vector<std::string> warnings_;
};

TEST_F(PerseusResultWriterTest, FilesAreThereWhenItReturns) {
  ResultWriter results = writer();
  results.write("job", {"0.prof.json", "[]"});
  EXPECT_EQ(text("job/0.prof.json"), "[]");
  results.write("job", {"profile.csv", "a"});
  results.write("job", {"profile.csv", "b"});
  EXPECT_EQ(text("job/profile.csv"), "b");
  EXPECT_TRUE(ResultFolder(folder_ / "dump").has("job"));
  EXPECT_FALSE(ResultFolder(folder_ / "dump").has("other"));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(PerseusResultWriterTest, WhatCannotBeWrittenIsWrittenLater) {
  ResultWriter results = writer();
  block("job");
  results.write("job", {"0.prof.json", "[0]"});
  results.write("job", {"profile.csv", "old"});
  results.write("job", {"profile.csv", "new"});
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("cannot be written")));
  results.write("other", {"0.prof.json", "[1]"});  // whose folder is fine
  EXPECT_EQ(text("other/0.prof.json"), "[1]");
  unblock("job");
  results.write("job", {"1.prof.json", "[2]"});
  EXPECT_EQ(text("job/0.prof.json"), "[0]");
  EXPECT_EQ(text("job/1.prof.json"), "[2]");
  EXPECT_EQ(text("job/profile.csv"), "new");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("cannot be written"), HasSubstr("written again")));
}

TEST_F(PerseusResultWriterTest, ItTriesOnceMoreWhenItEnds) {
  {
    ResultWriter results = writer();
    block("job");
    results.write("job", {"0.prof.json", "[0]"});
    unblock("job");
  }
  EXPECT_EQ(text("job/0.prof.json"), "[0]");
}

TEST_F(PerseusResultWriterTest, ThereIsABoundOnWhatItKeeps) {
  ResultWriter results = writer(10);
  block("job");
  results.write("job", {"0.prof.json", "12345678"});
  results.write("job", {"1.prof.json", "abcdefgh"});
  ASSERT_EQ(warnings_.size(), 2U);
  EXPECT_THAT(warnings_[1], HasSubstr("0.prof.json of job job is lost"));
  unblock("job");
  results.write("job", {"2.prof.json", "[]"});
  EXPECT_FALSE(fs::exists(folder_ / "dump" / "job" / "0.prof.json"));
  EXPECT_EQ(text("job/1.prof.json"), "abcdefgh");
}

}  // namespace
}  // namespace lowgear::server::perseus
