#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/run_lowgear.h"
#include "core/file.h"
#include "core/json.h"
#include "core/temporary_folder.h"

namespace lowgear {
namespace {

using ::testing::HasSubstr;

/// `lowgear monitor` on a machine without a GPU.
ProgramResult monitor(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "monitor");
  return run_lowgear(std::move(arguments), [] { ::setenv("LOWGEAR_NVML", "/no/such/library", 1); });
}

TEST(MonitorCommand, ChecksItsOutputBeforeTheCommandRuns) {
  const TemporaryFolder folder;
  const ProgramResult result = monitor({"--out", folder / "none" / "x.json", "--", "touch", folder / "it_ran"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("x.json: cannot be written: No such file or directory"));
  EXPECT_FALSE(std::filesystem::exists(folder / "it_ran"));
}

TEST(MonitorCommand, WritesItsOutput) {
  const TemporaryFolder folder;
  const ProgramResult result = monitor({"--out", folder / "x.json", "--", "sh", "-c", "exit 7"});
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(parse_json(read_file(folder / "x.json"), "x.json")["exit_status"], 7);
}

TEST(MonitorCommand, KeepsMeasurementAndStatusWhenItsOutputCannotBeWrittenAfterAll) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "gone");
  const ProgramResult result = monitor(
      {"--out", folder / "gone" / "x.json", "--", "sh", "-c", "rmdir " + (folder / "gone").string() + "; exit 7"});
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(result.err, HasSubstr("sh: 0.")) << "the measurement";
  EXPECT_THAT(result.err, HasSubstr("x.json: cannot be written"));
  EXPECT_THAT(result.err, HasSubstr("printed above"));
}

}  // namespace
}  // namespace lowgear
