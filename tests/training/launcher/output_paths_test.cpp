#include "training/launcher/output_paths.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/core/files/file.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/temporary_folder.h"

namespace lowgear::launcher {
namespace {

namespace fs = std::filesystem;

TEST(MetricsPath, IsTheMetricsOwnWhenItIsARegularFile) {
  const TemporaryFolder folder;
  EXPECT_FALSE(is_own_metrics_file(folder / "metrics.jsonl"));
  write_file_atomically(folder / "metrics.jsonl", "");
  fs::create_symlink("metrics.jsonl", folder / "link");
  EXPECT_TRUE(is_own_metrics_file(folder / "metrics.jsonl"));
  EXPECT_TRUE(is_own_metrics_file(folder / "link"));
  EXPECT_FALSE(is_own_metrics_file("/dev/null"));
  EXPECT_FALSE(is_own_metrics_file(folder.path()));
}

TEST(MetricsPath, IsNotTheMetricsOwnWhenItNamesAnOpenFile) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "log", "");
  const FileDescriptor log(::open((folder / "log").c_str(), O_WRONLY | O_CLOEXEC));
  fs::create_symlink(fmt::format("/dev/fd/{}", log.get()), folder / "link");
  fs::create_symlink("link", folder / "further");
  EXPECT_FALSE(is_own_metrics_file(fmt::format("/dev/fd/{}", log.get())));
  EXPECT_FALSE(is_own_metrics_file(fmt::format("/proc/self/fd/{}", log.get())));
  EXPECT_FALSE(is_own_metrics_file(folder / "further"));
  EXPECT_TRUE(is_own_metrics_file(folder / "log"));
}

}  // namespace
}  // namespace lowgear::launcher
