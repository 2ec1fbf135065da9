#include "base/ipc/termination_signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "base/core/eventually.h"

namespace lowgear::ipc {
namespace {

using namespace std::chrono_literals;

/// What a process of its own returns from `body`; -1 when something else ended it. Signals are the whole process'.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(TerminationSignals, KeepWhatCameBeforeAnybodyWaits) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    EXPECT_EQ(in_child([number] {
                const TerminationSignals signals;
                if (signals.came()) return 1;
                ::kill(::getpid(), number);
                return signals.came() && signals.came_within(kPatience) ? 0 : 2;
              }),
              0)
        << number;
  }
}

TEST(TerminationSignals, AreNotTakenByAThreadThatIsStartedLater) {
  EXPECT_EQ(in_child([] {
              const TerminationSignals signals;
              std::thread([] { ::kill(::getpid(), SIGTERM); }).join();
              return signals.came_within(kPatience) ? 0 : 1;
            }),
            0);
}

TEST(TerminationSignals, LeaveIgnoredOnesIgnored) {
  EXPECT_EQ(in_child([] {
              std::signal(SIGHUP, SIG_IGN);
              const TerminationSignals signals;
              ::kill(::getpid(), SIGHUP);
              return signals.came() ? 1 : 0;
            }),
            0);
}

TEST(TerminationSignals, HaveTheirEffectAgainAfterwards) {
  EXPECT_EQ(in_child([] {
              {
                const TerminationSignals signals;
                ::kill(::getpid(), SIGTERM);
              }
              return 0;
            }),
            0)
      << "what has come is forgotten";
  EXPECT_EQ(in_child([] {
              { const TerminationSignals signals; }
              ::kill(::getpid(), SIGTERM);
              return 0;
            }),
            -1);
}

}  // namespace
}  // namespace lowgear::ipc
