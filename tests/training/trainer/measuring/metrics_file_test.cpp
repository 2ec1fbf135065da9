#include "training/trainer/measuring/metrics_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/limited_process.h"
#include "base/core/temporary_folder.h"

namespace lowgear::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(MetricsFile, LeavesOutALineThatHasNoRoomAndContinuesAfterIt) {
  const TemporaryFolder folder;
  const std::string first = R"({"step":0})";
  MetricsFile file(folder / "metrics.jsonl", 0);
  EXPECT_TRUE(file.add(first));
  EXPECT_EQ(file.lost_lines(), 0);
  limit_file_size(first.size() + 5);
  EXPECT_FALSE(file.add(R"({"step":1})"));
  limit_file_size(RLIM_INFINITY);
  EXPECT_TRUE(file.add(R"({"step":2})"));
  EXPECT_EQ(read_file(folder / "metrics.jsonl"), "{\"step\":0}\n{\"step\":2}\n");
  EXPECT_EQ(file.lost_text(),
            (folder / "metrics.jsonl").string() + ": 1 of 3 lines could not be written: File too large");
}

TEST(MetricsFile, MayBeADevice) {
  MetricsFile file("/dev/null", 0);
  EXPECT_TRUE(file.add("{}"));
  MetricsFile full("/dev/full", 3);
  EXPECT_FALSE(full.add("{}"));
  EXPECT_EQ(full.lost_text(), "/dev/full: 1 of 1 lines could not be written: No space left on device");
}

TEST(MetricsFile, IsBegunAnewOrContinued) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  write_file_atomically(path, "{\"step\":0}\n{\"step\":1}\n");
  EXPECT_TRUE(MetricsFile(path, 1).add(R"({"step":1,"again":true})"));
  EXPECT_EQ(read_file(path), "{\"step\":0}\n{\"step\":1,\"again\":true}\n");
  EXPECT_TRUE(MetricsFile(path, 0).add(R"({"step":0})"));
  EXPECT_EQ(read_file(path), "{\"step\":0}\n");
}

TEST(MetricsFile, LeavesWhatAnOpenFileHolds) {
  const TemporaryFolder folder;
  const auto path = folder / "log";
  write_file_atomically(path, "a log\n");
  const FileDescriptor log(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  const std::string name = fmt::format("/dev/fd/{}", log.get());
  EXPECT_TRUE(MetricsFile(name, 0).add(R"({"step":0})"));
  EXPECT_TRUE(MetricsFile(name, 1).add(R"({"step":1})"));
  ASSERT_EQ(::write(log.get(), "more\n", 5), 5);
  EXPECT_EQ(read_file(path), "a log\n{\"step\":0}\n{\"step\":1}\nmore\n");
}

TEST(MetricsFile, ThatCannotBeMadeIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { MetricsFile(folder / "absent/metrics.jsonl", 0); }),
              AllOf(HasSubstr((folder / "absent/metrics.jsonl").string()),
                    HasSubstr("cannot be written: No such file or directory")));
}

}  // namespace
}  // namespace lowgear::trainer
