#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "cli/run_lowgear.h"
#include "core/limited_process.h"
#include "core/temporary_folder.h"

namespace lowgear {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Process, AReaderThatHasSeenEnoughIsNoError) {
  const ProgramResult result = run_lowgear({"man"}, [] {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(99);
    ::close(ends[0]);
    ::dup2(ends[1], STDOUT_FILENO);
  });
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.err, "");
}

TEST(Process, AFullStandardOutputIsAFailure) {
  const ProgramResult result = run_lowgear({"--version"}, [] {
    const int full = ::open("/dev/full", O_WRONLY);
    if (full < 0 || ::dup2(full, STDOUT_FILENO) < 0) ::_exit(99);
  });
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(lines_of(result.err).size(), 1U);
  EXPECT_THAT(result.err, HasSubstr("No space left on device"));
}

TEST(Process, AFullDiskLeavesNothing) {
  const TemporaryFolder folder;
  const std::string profile = write_text(folder / "profile.csv", small_profile(3));
  const ProgramResult result =
      run_lowgear(pipeline_command("plan", profile, 3, 8, {"--out", (folder / "deep" / "out").string()}),
                  [] { limit_file_size(4000); });
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
  EXPECT_THAT(folder.names(), ::testing::ElementsAre("profile.csv"));
}

TEST(Process, AFolderThatCannotBeWrittenIsRefused) {
  if (::geteuid() == 0) GTEST_SKIP() << "SKIPPED: root may write everywhere";
  const TemporaryFolder folder;
  const std::string profile = write_text(folder / "profile.csv", small_profile(3));
  std::filesystem::create_directory(folder / "closed");
  std::filesystem::permissions(folder / "closed", std::filesystem::perms::owner_read);
  const ProgramResult result =
      run_lowgear(pipeline_command("plan", profile, 3, 4, {"--out", (folder / "closed" / "out").string()}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(lines_of(result.err).size(), 1U);
}

/// Whether a folder holds something that begins like a temporary of the program.
bool has_temporary(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator entries(folder);
  return std::any_of(begin(entries), end(entries),
                     [](const auto& entry) { return entry.path().filename().string().starts_with(".lowgear-"); });
}

TEST(Process, AnInterruptedPlanLeavesNothing) {
  for (const int signal_number : {SIGINT, SIGTERM}) {
    const TemporaryFolder folder;
    const std::string profile = write_text(folder / "profile.csv", small_profile(24));
    LowgearProcess process(pipeline_command(
        "plan", profile, 24, 256, {"--frontier", "exact", "--plans", "2000", "--out", (folder / "out").string()}));
    // From when its temporary is there, until it would end by itself much later.
    while (process.running() && !has_temporary(folder.path())) std::this_thread::yield();
    process.send_signal(signal_number);
    const ProgramResult result = process.wait();
    EXPECT_EQ(result.signal, signal_number) << result.exit_code << result.err;
    EXPECT_THAT(folder.names(), ::testing::ElementsAre("profile.csv"));
  }
}

TEST(Process, ColoursAndBarsAreForTerminalsOnly) {
  const TemporaryFolder folder;
  const ProgramResult result = run_lowgear({"plot"});
  EXPECT_THAT(result.err, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace lowgear
