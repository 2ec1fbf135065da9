#include "hardware/measure/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"

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
    SignalGuard guard({});
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
    SignalGuard guard({});
    kill(getpid(), SIGTERM);
    killpg(getpgrp(), SIGINT);
    killpg(getpgrp(), SIGUSR2);
    return guard.next() == SIGINT && guard.sent_to_all(SIGINT) && guard.next() == SIGUSR2 &&
           guard.sent_to_all(SIGUSR2) && guard.next() == SIGTERM && !guard.sent_to_all(SIGTERM);
  }));
}

TEST(SignalGuard, TakesNoAnswerOfAStoppedProcessForTheNext) {
  EXPECT_TRUE(in_own_group([] {
    SignalGuard guard({});
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
  { const SignalGuard guard({}); }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

CommandResult run(const std::vector<std::string>& words) {
  SignalGuard guard(words);
  return run_command(words, CommandOutput::standard_output, guard);
}

TEST(Command, ReportsTheExitCode) {
  EXPECT_EQ(run({"true"}).shell_status(), 0);
  EXPECT_EQ(run({"sh", "-c", "exit 7"}).shell_status(), 7);
}

TEST(Command, ReportsTheSignalThatEndedIt) {
  const CommandResult result = run({"sh", "-c", "kill -KILL $$"});
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_EQ(result.asked, 0);
  EXPECT_EQ(result.shell_status(), 137);
}

TEST(Command, HearsOfTheEndWhereTheProcessWasStartedIgnoringIt) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(run({"sh", "-c", "exit 7"}).shell_status(), 7);
  EXPECT_EQ(std::signal(SIGCHLD, before), SIG_IGN) << "as it was";
}

TEST(Command, RefusesAProgramThatIsNotThere) {
  EXPECT_THAT(error_of([&] { (void)run({"lowgear-no-such-program"}); }),
              testing::HasSubstr("\"lowgear-no-such-program\": No such file"));
}

TEST(Command, RefusesNothing) { EXPECT_THROW((void)run({}), InputError); }

TEST(Command, PassesASignalOnAndWaits) {
  // The command says by its exit code that it got the signal and ended in its own way.
  SignalGuard guard({});
  const pthread_t waiter = pthread_self();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const std::string script =
      "trap 'exit 9' TERM; echo x > /proc/self/fd/" + std::to_string(ready[1]) + "; while :; do sleep 0.01; done";
  std::thread sender([&] {
    char byte = 0;
    if (read(ready[0], &byte, 1) == 1) {
      sigval value{};
      pthread_sigqueue(waiter, SIGTERM, value);
    }
  });
  const CommandResult result =
      run_command(std::vector<std::string>{"sh", "-c", script}, CommandOutput::standard_output, guard);
  sender.join();
  close(ready[0]);
  close(ready[1]);
  EXPECT_EQ(result.shell_status(), 9);
  EXPECT_EQ(result.asked, SIGTERM);
}

/// Runs a script by `run_command` in a process that leads a group of its own, as schedulers start one. `act` gets that
/// process' id when the script has put its traps in place by `$READY`. Returns the status of the script.
int status_in_own_group(const std::string& script, const std::function<void(pid_t)>& act) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t runner = fork();
  if (runner == 0) {
    setpgid(0, 0);
    close(ready[0]);
    _exit(
        run({"sh", "-c", "READY='echo x > /proc/self/fd/" + std::to_string(ready[1]) + "'; " + script}).shell_status());
  }
  close(ready[1]);
  char byte = 0;
  if (read(ready[0], &byte, 1) == 1) act(runner);
  close(ready[0]);
  int status = 0;
  waitpid(runner, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  return WEXITSTATUS(status);
}

TEST(Command, PassesOnTheSignalsThatTellACommandSomething) {
  for (const auto& [name, signal] : {std::pair("USR1", SIGUSR1), {"USR2", SIGUSR2}, {"ALRM", SIGALRM}}) {
    const std::string script = std::string("trap 'exit 9' ") + name + "; eval \"$READY\"; while :; do sleep 0.01; done";
    EXPECT_EQ(status_in_own_group(script, [signal = signal](pid_t runner) { kill(runner, signal); }), 9) << name;
  }
}

TEST(Command, GetsASignalToTheGroupOnce) {
  // Signals wait in the order of their numbers, so that SIGTERM says how many there were before it.
  for (const auto& [name, signal] : {std::pair("HUP", SIGHUP), {"INT", SIGINT}, {"USR1", SIGUSR1}}) {
    const std::string script = std::string("n=0; trap 'n=$((n+1))' ") + name +
                               "; trap 'exit $((10+n))' TERM; eval \"$READY\"; while :; do sleep 0.01; done";
    const int status = status_in_own_group(script, [signal = signal](pid_t runner) {
      killpg(runner, signal);
      kill(runner, SIGTERM);
    });
    EXPECT_EQ(status, 11) << name;
  }
}

/// The children of a process that has one thread.
std::vector<pid_t> children_of(pid_t process) {
  const std::string id = std::to_string(process);
  std::ifstream file("/proc/" + id + "/task/" + id + "/children");
  return {std::istream_iterator<pid_t>(file), {}};
}

std::string shown_arguments(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/cmdline");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.substr(0, text.find_last_not_of('\0') + 1);
}

TEST(Command, GetsASignalToTheOthersThatItHasMissed) {
  // As `kill $(pidof lowgear)` sends it: to the two processes of one program. The command's answer is the usual one.
  const int status = status_in_own_group("eval \"$READY\"; exec sleep 1000", [](pid_t runner) {
    const std::vector<pid_t> children = children_of(runner);
    EXPECT_EQ(children.size(), 2U);
    kill(children.at(0), SIGTERM);  // the watching one is started first
    kill(runner, SIGTERM);
  });
  EXPECT_EQ(status, 128 + SIGTERM);
}

TEST(Command, IsNamedLikeTheProcessThatWatchesForItsSignals) {
  // So pkill, also with -f, chooses both of them or neither, and the command gets every signal once.
  std::vector<std::string> shown;
  status_in_own_group("trap 'exit 9' TERM; eval \"$READY\"; while :; do sleep 0.01; done", [&](pid_t runner) {
    for (const pid_t child : children_of(runner)) {
      std::string name;
      std::getline(std::ifstream("/proc/" + std::to_string(child) + "/comm"), name);
      shown.push_back(name + " " + shown_arguments(child).substr(0, 6));
    }
    kill(runner, SIGTERM);
  });
  EXPECT_EQ(shown, (std::vector<std::string>(2, std::string("sh sh\0-c\0", 9))));
}

TEST(Command, IgnoresWhatWasIgnoredBefore) {
  // As by nohup.
  std::signal(SIGHUP, SIG_IGN);
  EXPECT_EQ(run({"sh", "-c", "kill -HUP $$; exit 4"}).shell_status(), 4);
  std::signal(SIGHUP, SIG_DFL);
}

TEST(Command, StartsWithSignalsAsUsual) {
  // As in lowgear itself. A shell cannot trap a signal that was ignored when it started.
  std::signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(run({"sh", "-c", "trap 'exit 3' PIPE; kill -PIPE $$; exit 1"}).shell_status(), 3);
}

}  // namespace

}  // namespace lowgear::measure
