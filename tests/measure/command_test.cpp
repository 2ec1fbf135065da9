#include "measure/command.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"

namespace lowgear {
namespace {

CommandResult run(const std::vector<std::string>& words) {
  const SignalGuard guard;
  return run_command(words, CommandOutput::standard_output, guard);
}

TEST(Command, ReportsTheExitCode) {
  EXPECT_EQ(run({"true"}).shell_status(), 0);
  EXPECT_EQ(run({"sh", "-c", "exit 7"}).shell_status(), 7);
}

TEST(Command, ReportsTheSignalThatEndedIt) {
  const CommandResult result = run({"sh", "-c", "kill -KILL $$"});
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_EQ(result.shell_status(), 137);
}

TEST(Command, RefusesAProgramThatIsNotThere) {
  try {
    (void)run({"lowgear-no-such-program"});
    FAIL() << "an error was expected";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("\"lowgear-no-such-program\": No such file"), std::string::npos)
        << error.what();
  }
}

TEST(Command, RefusesNothing) { EXPECT_THROW((void)run({}), InputError); }

TEST(Command, PassesASignalOnAndWaits) {
  // The command says by its exit code that it got the signal and ended in its own way.
  const SignalGuard guard;
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
}

TEST(Command, StartsWithSignalsAsUsual) {
  // As in lowgear itself. A shell cannot trap a signal that was ignored when it started.
  std::signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(run({"sh", "-c", "trap 'exit 3' PIPE; kill -PIPE $$; exit 1"}).shell_status(), 3);
}

}  // namespace
}  // namespace lowgear
