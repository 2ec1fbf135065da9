#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/limited_process.h"
#include "base/core/temporary_folder.h"

namespace lowgear::cli {
namespace {

using ::testing::AllOf;
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

TEST(Process, SaysMoreOrLessAsItIsTold) {
  const TemporaryFolder folder;
  const std::string profile = write_text(folder / "profile.csv", small_profile(3));
  const std::vector<std::string> command = {"show", "--profile", profile};
  const auto with = [&](std::vector<std::string> options) {
    options.insert(options.begin(), command.begin(), command.end());
    return run_lowgear(options);
  };
  const std::string read = "lowgear: debug: read " + profile;
  EXPECT_THAT(run_lowgear(command).err, Not(HasSubstr("debug")));
  EXPECT_THAT(with({"--log-level", "debug"}).err, HasSubstr(read));
  EXPECT_THAT(run_lowgear(command, [] { ::setenv("LOWGEAR_LOG", "DEBUG", 1); }).err, HasSubstr(read));
  EXPECT_THAT(refusal_of(with({"--log-level", "loud"})),
              HasSubstr("--log-level: expected debug or info or warning or error, not \"loud\""));
  EXPECT_THAT(refusal_of(run_lowgear(command, [] { ::setenv("LOWGEAR_LOG", "loud", 1); })),
              HasSubstr("LOWGEAR_LOG: expected debug or info"));
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
  const TemporaryFolder folder;
  const std::string profile = write_text(folder / "profile.csv", small_profile(3));
  // No user, not even root, can make a folder there.
  const ProgramResult result = run_lowgear(pipeline_command("plan", profile, 3, 4, {"--out", "/proc/lowgear/out"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
  EXPECT_THAT(result.err, HasSubstr("/proc/lowgear/out"));
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
    EXPECT_EQ(lines_of(result.err).back(), "lowgear: warning: stopped, nothing written");
    EXPECT_THAT(folder.names(), ::testing::ElementsAre("profile.csv"));
  }
}

TEST(Process, ASignalEndsTheWaitForAnInput) {
  const TemporaryFolder folder;
  const std::string pipe = (folder / "profile.csv").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  LowgearProcess process({"plan", pipe, "--microbatches", "4", "--out", (folder / "out").string()});
  const int writer = ::open(pipe.c_str(), O_WRONLY | O_CLOEXEC);  // returns when the program has opened it
  while (process.running() && !process.sleeping()) std::this_thread::yield();
  process.send_signal(SIGINT);
  const ProgramResult result = process.wait();
  ::close(writer);
  EXPECT_EQ(result.signal, SIGINT) << result.exit_code << result.err;
  EXPECT_EQ(lines_of(result.err).back(), "lowgear: warning: stopped, nothing written");
}

/// A terminal: what is written to one end is read at the other.
class Terminal {
 public:
  Terminal() : reader_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    if (reader_ < 0 || ::grantpt(reader_) != 0 || ::unlockpt(reader_) != 0) return;
    name_ = ::ptsname(reader_);  // NOLINT(concurrency-mt-unsafe): the tests have one thread
    // Kept open, so that what a process has written stays there after its end.
    writer_ = ::open(name_.c_str(), O_RDWR | O_NOCTTY);
  }
  ~Terminal() {
    ::close(writer_);
    ::close(reader_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  [[nodiscard]] bool works() const { return writer_ >= 0; }
  /// For the child: standard error of its own goes here.
  void take_standard_error() const {
    if (::dup2(writer_, STDERR_FILENO) < 0) ::_exit(99);
  }
  [[nodiscard]] std::string read_some() const {
    std::string text(4096, '\0');
    const ssize_t count = ::read(reader_, text.data(), text.size());
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
  }

 private:
  int reader_ = -1;
  int writer_ = -1;
  std::string name_;
};

/// What an error looks like on a terminal, with one more setting in the environment.
std::string error_on_terminal(const char* variable, const char* value) {
  const Terminal terminal;
  if (!terminal.works()) return "no terminal";
  const ProgramResult result = run_lowgear({"plot"}, [&] {
    ::unsetenv("NO_COLOR");
    ::setenv("TERM", "xterm", 1);
    ::setenv(variable, value, 1);
    terminal.take_standard_error();
  });
  EXPECT_EQ(result.exit_code, 2);
  return terminal.read_some();
}

constexpr const char* kEscape = "\x1b[";

TEST(Process, ColoursAreForTerminalsThatWantThem) {
  const std::string coloured = error_on_terminal("TERM", "xterm");
  if (coloured == "no terminal") GTEST_SKIP() << "SKIPPED: this system gives no pseudo-terminal";
  EXPECT_THAT(coloured, AllOf(HasSubstr("there is no command"), HasSubstr(kEscape)));
  EXPECT_THAT(error_on_terminal("NO_COLOR", "1"), AllOf(HasSubstr("there is no command"), Not(HasSubstr(kEscape))));
  EXPECT_THAT(error_on_terminal("TERM", "dumb"), AllOf(HasSubstr("there is no command"), Not(HasSubstr(kEscape))));
  EXPECT_THAT(run_lowgear({"plot"}).err, AllOf(HasSubstr("there is no command"), Not(HasSubstr(kEscape))));
}

}  // namespace
}  // namespace lowgear::cli
