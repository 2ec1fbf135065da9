#include "app/cli/terminal/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>

namespace lowgear::cli {
namespace {

/// How a process of its own ends that runs `body`: its exit status, or the number of the signal that ended it, negated.
int end_of_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    install_signal_handlers();
    int status = 99;
    try {
      status = body();
    } catch (const Interrupted& interrupted) {
      status = 50 + interrupted.signal;
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(EndOnSignals, LosesNoSignalThatHasCome) {
  EXPECT_EQ(end_of_child([] {
              ::raise(SIGTERM);
              end_on_signals();
              return 0;
            }),
            50 + SIGTERM);
}

TEST(EndOnSignals, LetsThemEndTheProgram) {
  for (const int signal_number : {SIGTERM, SIGINT, SIGHUP}) {
    EXPECT_EQ(end_of_child([signal_number] {
                end_on_signals();
                ::raise(signal_number);
                return 0;
              }),
              -signal_number);
  }
}

TEST(EndOnSignals, LeavesIgnoredOnesIgnored) {
  EXPECT_EQ(end_of_child([] {
              std::signal(SIGHUP, SIG_IGN);
              end_on_signals();
              ::raise(SIGHUP);
              return 0;
            }),
            0);
}

TEST(RepeatReceivedSignal, SendsWhatHasComeToWhoeverWaitsNow) {
  EXPECT_EQ(end_of_child([] {
              ::raise(SIGTERM);
              sigset_t signals;
              sigemptyset(&signals);
              sigaddset(&signals, SIGTERM);
              ::sigprocmask(SIG_BLOCK, &signals, nullptr);
              repeat_received_signal();
              int taken = 0;
              ::sigwait(&signals, &taken);
              return taken;
            }),
            SIGTERM);
}

TEST(Memory, ThisMachineHasSome) {
  const auto available = available_memory_bytes();
  if (!available) GTEST_SKIP() << "SKIPPED: this system does not say how much memory it has";
  EXPECT_GT(*available, std::uint64_t{1} << 20);
}

}  // namespace

}  // namespace lowgear::cli
