#include "hardware/measure/signal_guard.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>

namespace lowgear::measure {
namespace {

/// Whether `holds` in a process that leads a group of its own.
bool in_own_group(const std::function<bool()>& holds) {
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    _exit(holds() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(SignalGuard, TellsASignalToTheGroupFromOneToThisProcess) {
  EXPECT_TRUE(in_own_group([] {
    SignalGuard guard;
    bool right = true;
    for (int round = 0; round < 2; ++round) {
      killpg(getpgrp(), SIGUSR1);
      right = right && guard.next() == SIGUSR1 && guard.sent_to_all(SIGUSR1);
      kill(getpid(), SIGUSR1);
      right = right && guard.next() == SIGUSR1 && !guard.sent_to_all(SIGUSR1);
    }
    return right;
  }));
}

TEST(SignalGuard, KeepsSeveralSignalsApart) {
  EXPECT_TRUE(in_own_group([] {
    SignalGuard guard;
    kill(getpid(), SIGTERM);
    killpg(getpgrp(), SIGINT);
    killpg(getpgrp(), SIGUSR2);
    return guard.next() == SIGINT && guard.sent_to_all(SIGINT) && guard.next() == SIGUSR2 &&
           guard.sent_to_all(SIGUSR2) && guard.next() == SIGTERM && !guard.sent_to_all(SIGTERM);
  }));
}

TEST(SignalGuard, TakesNoAnswerOfAStoppedProcessForTheNext) {
  EXPECT_TRUE(in_own_group([] {
    SignalGuard guard;
    pid_t witness = 0;
    std::ifstream("/proc/thread-self/children") >> witness;
    if (witness <= 0) return false;
    kill(witness, SIGSTOP);
    siginfo_t state{};
    waitid(P_PID, static_cast<id_t>(witness), &state, WSTOPPED | WNOWAIT);
    kill(getpid(), SIGUSR1);
    if (guard.next() != SIGUSR1 || guard.sent_to_all(SIGUSR1)) return false;
    kill(witness, SIGCONT);
    killpg(getpgrp(), SIGUSR1);
    return guard.next() == SIGUSR1 && guard.sent_to_all(SIGUSR1);
  }));
}

TEST(SignalGuard, LeavesNoProcessBehind) {
  { const SignalGuard guard; }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

}  // namespace
}  // namespace lowgear::measure
