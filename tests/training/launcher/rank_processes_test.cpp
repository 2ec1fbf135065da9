#include "training/launcher/rank_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/eventually.h"
#include "base/core/temporary_folder.h"
#include "base/core/version.h"

namespace lowgear::launcher {

namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::ElementsAre;
using testing::SizeIs;

namespace fs = std::filesystem;

/// Ranks that run a script of the shell.
RankCommand shell(const std::string& script, int world_size) {
  RankCommand command;
  command.program = "/bin/sh";
  command.arguments = {"-c", script};
  command.world_size = world_size;
  command.grace = kPatience;
  return command;
}

/// What a job came to.
struct Outcome {
  std::optional<RankFailure> failure;
  std::map<int, std::vector<std::string>> lines;  ///< by rank
};

Outcome run(
    const RankCommand& command, const std::function<bool()>& asked_to_end = [] { return false; }) {
  Outcome outcome;
  outcome.failure = run_ranks(
      command, [&](int rank, std::string_view line) { outcome.lines[rank].emplace_back(line); }, asked_to_end);
  return outcome;
}

bool no_child_is_left() { return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

std::size_t open_files() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Neither running nor waiting to be reaped by another process.
bool is_gone(pid_t pid) {
  const std::string status = text_of(fs::path("/proc") / std::to_string(pid) / "stat");
  const std::size_t end = status.rfind(')');
  return end == std::string::npos || status[end + 2] == 'Z';
}

TEST(RunRanks, EndsWhenAllHaveEndedWell) {
  const Outcome outcome = run(shell("exit 0", 3));
  EXPECT_FALSE(outcome.failure);
  EXPECT_TRUE(no_child_is_left());
}

/// Without what the shell that runs the tests says of threads.
void forget_threads() {
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY"}) {
    ::unsetenv(name);
  }
}

TEST(RunRanks, TellsRanksTheirPlaceAndThreads) {
  forget_threads();
  RankCommand command = shell(
      "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $OMP_NUM_THREADS $OPENBLAS_NUM_THREADS $MKL_NUM_THREADS "
      "$OMP_WAIT_POLICY $MARK $HOME >&2",
      2);
  command.threads = 3;
  command.environment["MARK"] = "seen";
  ASSERT_EQ(::setenv("HOME", "/inherited", 1), 0);
  const Outcome outcome = run(command);
  EXPECT_THAT(outcome.lines.at(0), ElementsAre("0 0 2 2 3 3 3 passive seen /inherited"));
  EXPECT_THAT(outcome.lines.at(1), ElementsAre("1 1 2 2 3 3 3 passive seen /inherited"));
}

TEST(RunRanks, LeavesThreadsAsTheUserSaid) {
  forget_threads();
  RankCommand command = shell("echo $OMP_NUM_THREADS $OPENBLAS_NUM_THREADS $MKL_NUM_THREADS $OMP_WAIT_POLICY >&2", 1);
  command.threads = 3;
  ASSERT_EQ(::setenv("OMP_NUM_THREADS", "1", 1), 0);
  ASSERT_EQ(::setenv("MKL_NUM_THREADS", "2", 1), 0);
  ASSERT_EQ(::setenv("OMP_WAIT_POLICY", "active", 1), 0);
  const Outcome outcome = run(command);
  forget_threads();
  EXPECT_THAT(outcome.lines.at(0), ElementsAre("1 1 2 active"));
}

TEST(RunRanks, OverridesTheRankThatItsOwnLauncherSet) {
  ASSERT_EQ(::setenv("RANK", "7", 1), 0);
  const Outcome outcome = run(shell("echo $RANK >&2", 1));
  ::unsetenv("RANK");
  EXPECT_THAT(outcome.lines.at(0), ElementsAre("0"));
}

TEST(RunRanks, LeavesStandardOutputToRankZero) {
  testing::internal::CaptureStdout();
  const Outcome outcome = run(shell("echo from $RANK; echo aside of $RANK >&2", 2));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "from 0\n");
  EXPECT_THAT(outcome.lines.at(0), ElementsAre("aside of 0"));
  EXPECT_THAT(outcome.lines.at(1), ElementsAre("from 1", "aside of 1"));
}

TEST(RunRanks, PassesOnLinesThatHaveNoEndAndCutsLongOnes) {
  const Outcome outcome = run(shell("printf half >&2; [ $RANK = 0 ] || head -c 100000 /dev/zero | tr '\\0' x >&2", 2));
  EXPECT_THAT(outcome.lines.at(0), ElementsAre("half"));
  EXPECT_THAT(outcome.lines.at(1), ElementsAre(SizeIs(4096)));
}

TEST(RunRanks, NamesTheRankThatFailedWithItsCodeAndLastLine) {
  const Outcome outcome =
      run(shell("[ $RANK = 1 ] || exec sleep 60; echo first >&2; echo 'the reason' >&2; exit 5", 3));
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->rank, 1);
  EXPECT_EQ(outcome.failure->exit_code, 5);
  EXPECT_EQ(outcome.failure->signal, 0);
  EXPECT_EQ(outcome.failure->how, "ended with 5");
  EXPECT_EQ(outcome.failure->why, "the reason");
  EXPECT_TRUE(no_child_is_left());
}

TEST(RunRanks, NamesTheSignalThatKilledARank) {
  const Outcome outcome = run(shell("[ $RANK = 2 ] || exec sleep 60; kill -9 $$", 3));
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->rank, 2);
  EXPECT_EQ(outcome.failure->exit_code, -1);
  EXPECT_EQ(outcome.failure->signal, SIGKILL);
  EXPECT_EQ(outcome.failure->how, "was killed by signal 9 (Killed)");
}

TEST(RunRanks, ASignalFromElsewhereIsAFailureTooBeforeAnybodyWasAskedToEnd) {
  const Outcome outcome = run(shell("[ $RANK = 1 ] || exec sleep 60; kill -TERM $$", 2));
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->rank, 1);
  EXPECT_EQ(outcome.failure->signal, SIGTERM);
}

TEST(RunRanks, ARankThatLostAnotherIsNotTheReason) {
  const TemporaryFolder folder;
  const std::string ready = (folder / "ready").string();
  // Rank 0 is seen first: rank 1 fails only when it is asked to end because rank 0 has lost it.
  const Outcome outcome = run(shell("if [ $RANK = 0 ]; then while [ ! -e " + ready +
                                        " ]; do sleep 0.01; done; "
                                        "echo lost >&2; exit 3; fi;"
                                        "trap 'kill $!; echo mine >&2; exit 4' TERM; : >" +
                                        ready + "; sleep 60 & wait",
                                    2));
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->rank, 1);
  EXPECT_EQ(outcome.failure->exit_code, 4);
  EXPECT_EQ(outcome.failure->why, "mine");
}

TEST(RunRanks, WhenAllLostAnotherTheFirstIsNamed) {
  const Outcome outcome = run(shell("exit 3", 4));
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->exit_code, kPeerLostExitCode);
}

TEST(RunRanks, AsksAllToEnd) {
  const TemporaryFolder folder;
  const std::string script =
      "trap 'kill $!; echo ending >&2; exit 0' TERM; : >" + (folder / "ready").string() + "-$RANK; sleep 60 & wait";
  const auto ready = [&] { return fs::exists(folder / "ready-0") && fs::exists(folder / "ready-1"); };
  const Outcome outcome = run(shell(script, 2), ready);
  EXPECT_FALSE(outcome.failure);
  EXPECT_THAT(outcome.lines.at(0), ElementsAre("ending"));
  EXPECT_THAT(outcome.lines.at(1), ElementsAre("ending"));
}

TEST(RunRanks, RanksThatDieOfTheRequestToEndDidNotFail) {
  EXPECT_FALSE(run(shell("exec sleep 60", 2), [] { return true; }).failure);
}

TEST(RunRanks, RanksThatSayThatTheyEndedEarlyDidNotFail) {
  const TemporaryFolder folder;
  const std::string ready = (folder / "ready").string();
  const Outcome outcome = run(shell("trap 'kill $!; exit 143' TERM; : >" + ready + "; sleep 60 & wait", 1),
                              [&] { return fs::exists(ready); });
  EXPECT_FALSE(outcome.failure);
}

TEST(RunRanks, ARankThatEndedEarlyBeforeAnybodyWasAskedToEndFailed) {
  const Outcome outcome = run(shell("[ $RANK = 1 ] || exec sleep 60; exit 143", 2));
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->rank, 1);
  EXPECT_EQ(outcome.failure->exit_code, kEndedEarlyExitCode);
}

TEST(RunRanks, AFailureWhileEndingIsAFailure) {
  const TemporaryFolder folder;
  const std::string ready = (folder / "ready").string();
  const Outcome outcome =
      run(shell("trap 'kill $!; echo disk full >&2; exit 1' TERM; : >" + ready + "; sleep 60 & wait", 1),
          [&] { return fs::exists(ready); });
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->why, "disk full");
}

TEST(RunRanks, KillsThoseThatDoNotEndAfterAFailure) {
  const TemporaryFolder folder;
  const std::string ready = (folder / "ready").string();
  RankCommand command = shell("if [ $RANK = 0 ]; then while [ ! -e " + ready +
                                  " ]; do sleep 0.01; done; exit 9; fi;"
                                  "trap '' TERM; : >" +
                                  ready + "; exec sleep 60",
                              2);
  command.grace = 100ms;
  const Outcome outcome = run(command);
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->rank, 0);
  EXPECT_EQ(outcome.failure->exit_code, 9);
  EXPECT_THAT(outcome.lines.at(1), Contains("did not end in time and was killed"));
  EXPECT_TRUE(no_child_is_left());
}

TEST(RunRanks, KillsThoseThatDoNotEndWhenAsked) {
  const TemporaryFolder folder;
  const std::string ready = (folder / "ready").string();
  RankCommand command = shell("trap '' TERM; : >" + ready + "; exec sleep 60", 1);
  command.end_grace = 100ms;
  const Outcome outcome = run(command, [&] { return fs::exists(ready); });
  EXPECT_FALSE(outcome.failure);
  EXPECT_THAT(outcome.lines.at(0), ElementsAre("did not end in time and was killed"));
}

TEST(RunRanks, AFailureCutsTheTimeOfThoseThatWereAskedToEnd) {
  const TemporaryFolder folder;
  const std::string ready = (folder / "ready").string();
  RankCommand command = shell("trap '[ $RANK = 0 ] && exit 1' TERM; : >" + ready +
                                  "-$RANK;"
                                  "while :; do sleep 0.01; done",
                              2);
  command.end_grace = 60s;
  command.grace = 100ms;
  const Outcome outcome = run(command, [&] { return fs::exists(ready + "-0") && fs::exists(ready + "-1"); });
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->rank, 0);
}

TEST(RunRanks, SaysWhichProgramCannotBeStarted) {
  RankCommand command;
  command.program = "/nonexistent/trainer";
  const Outcome outcome = run(command);
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->exit_code, 127);
  EXPECT_EQ(outcome.failure->why, "cannot be started: No such file or directory");
}

TEST(RunRanks, DoesNotWaitForWhatARankLeftBehind) {
  // The sleeping process keeps the rank's standard error open.
  const TemporaryFolder folder;
  const std::string file = (folder / "pid").string();
  const Outcome outcome = run(shell("sleep 60 & echo $! >" + file + "; printf unfinished >&2", 1));
  EXPECT_FALSE(outcome.failure);
  EXPECT_THAT(outcome.lines.at(0), ElementsAre("unfinished"));
  ::kill(static_cast<pid_t>(std::stoi(text_of(file))), SIGKILL);
}

TEST(RunRanks, ARankThatNeverStopsTalkingCannotKeepTheJobFromEnding) {
  const TemporaryFolder folder;
  const std::string ready = (folder / "ready").string();
  RankCommand command = shell(": >" + ready + "; exec yes >&2", 1);
  const auto failure = run_ranks(
      command, [](int, std::string_view) {}, [&] { return fs::exists(ready); });
  EXPECT_FALSE(failure);
}

TEST(RunRanks, SixtyFourRanksAreEachHeardOnce) {
  const std::size_t before = open_files();
  const Outcome outcome = run(shell("echo $RANK of $WORLD_SIZE >&2", 64));
  EXPECT_FALSE(outcome.failure);
  ASSERT_THAT(outcome.lines, SizeIs(64));
  for (const auto& [rank, lines] : outcome.lines) {
    EXPECT_THAT(lines, ElementsAre(std::to_string(rank) + " of 64"));
  }
  EXPECT_EQ(open_files(), before);
  EXPECT_TRUE(no_child_is_left());
}

TEST(RunRanks, WhenOneCannotBeStartedNoneIsLeft) {
  const std::size_t before = open_files();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit low{before + 8, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_THROW((void)run(shell("exec sleep 60", 64)), Error);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(no_child_is_left());
  EXPECT_EQ(open_files(), before);
}

TEST(RunRanks, RanksEndWithTheirLauncher) {
  const TemporaryFolder folder;
  const std::string files = (folder / "rank").string();
  const pid_t launcher = ::fork();
  ASSERT_GE(launcher, 0);
  if (launcher == 0) {
    (void)run(
        shell("echo $$ >" + files + "-$RANK.new; mv " + files + "-$RANK.new " + files + "-$RANK; exec sleep 60", 3));
    ::_exit(0);
  }
  std::vector<fs::path> names;
  for (const char* rank : {"-0", "-1", "-2"}) names.push_back(files + rank);
  const bool started =
      eventually([&] { return std::ranges::all_of(names, [](const fs::path& p) { return fs::exists(p); }); });
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  ASSERT_TRUE(started);
  for (const fs::path& name : names) {
    const auto pid = static_cast<pid_t>(std::stoi(text_of(name)));
    EXPECT_TRUE(eventually([&] { return is_gone(pid); })) << name;
  }
}

TEST(ThreadsPerRank, DividesTheCoresAndLeavesOneAtLeast) {
  const int cores = threads_per_rank(1);
  EXPECT_GE(cores, 1);
  EXPECT_EQ(threads_per_rank(cores), 1);
  EXPECT_EQ(threads_per_rank(10'000), 1);
  EXPECT_EQ(threads_per_rank(0), cores);
}

using testing::AllOf;
using testing::HasSubstr;

TEST(Release, HasToBeThatOfTheLauncher) {
  EXPECT_EQ(error_of([] { require_release_of(std::nullopt); }), "no error") << "torchrun says none";
  EXPECT_EQ(error_of([] { require_release_of(version()); }), "no error");
  EXPECT_THAT(error_of([] { require_release_of("999.0.0"); }),
              AllOf(HasSubstr("lowgear is 999.0.0"), HasSubstr(version()), HasSubstr("of one release")));
}

}  // namespace

}  // namespace lowgear::launcher
