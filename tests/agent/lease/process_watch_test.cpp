#include "agent/lease/process_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <chrono>

#include "base/core/eventually.h"

namespace lowgear::agent {
namespace {

/// A process that waits to be killed.
class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    if (pid_ == 0) {
      ::alarm(60);
      while (true) ::pause();
    }
  }
  ~Sleeper() { end(); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill() const { ::kill(pid_, SIGKILL); }
  void end() {
    if (pid_ <= 0) return;
    kill();
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

/// Says what start time a pid has, and opens the processes of the system.
class FakeProcessTable final : public ProcessTable {
 public:
  std::optional<std::uint64_t> ticks = 1;

  [[nodiscard]] std::optional<std::uint64_t> start_ticks(pid_t) const override { return ticks; }
  [[nodiscard]] FileDescriptor open(pid_t pid) const override { return SystemProcessTable().open(pid); }
  [[nodiscard]] std::optional<ProcessJob> job(pid_t) const override { return ProcessJob(); }
};

TEST(ProcessWatch, CallsBackWhenTheProcessEndsThoughItIsNotWaitedFor) {
  const Sleeper process;
  const SystemProcessTable processes;
  const auto identity = identify(processes, process.pid());
  ASSERT_TRUE(identity);
  boost::asio::io_context io;
  int ends = 0;
  const auto watch = ProcessWatch::start(io, processes, *identity, [&ends] { ++ends; });
  ASSERT_TRUE(watch);
  io.poll();
  EXPECT_EQ(ends, 0);
  io.restart();
  process.kill();
  io.run_one_for(kPatience);
  EXPECT_EQ(ends, 1);
}

TEST(ProcessWatch, AnEndedWatchCallsNothing) {
  const Sleeper process;
  const SystemProcessTable processes;
  boost::asio::io_context io;
  int ends = 0;
  auto watch = ProcessWatch::start(io, processes, identify(processes, process.pid()).value(), [&ends] { ++ends; });
  watch.reset();
  process.kill();
  io.run_for(std::chrono::milliseconds(50));
  EXPECT_EQ(ends, 0);
}

TEST(ProcessWatch, AProcessThatHasTakenOverThePidIsAnotherOne) {
  const Sleeper process;
  FakeProcessTable processes;
  const ProcessIdentity before{.pid = process.pid(), .start_ticks = 1};
  processes.ticks = 2;
  boost::asio::io_context io;
  int ends = 0;
  EXPECT_EQ(ProcessWatch::start(io, processes, before, [&ends] { ++ends; }), nullptr);
  io.run_for(kPatience);
  EXPECT_EQ(ends, 1);
}

TEST(ProcessWatch, AnEndedProcessIsReportedAtOnce) {
  Sleeper process;
  const SystemProcessTable processes;
  const auto identity = identify(processes, process.pid());
  ASSERT_TRUE(identity);
  process.end();
  boost::asio::io_context io;
  int ends = 0;
  EXPECT_EQ(ProcessWatch::start(io, processes, *identity, [&ends] { ++ends; }), nullptr);
  io.run_for(kPatience);
  EXPECT_EQ(ends, 1);
}

TEST(ProcessIdentity, IsTheSameForAsLongAsTheProcessLives) {
  const SystemProcessTable processes;
  const auto self = identify(processes, ::getpid());
  ASSERT_TRUE(self);
  EXPECT_GT(self->start_ticks, 0U);
  EXPECT_EQ(identify(processes, ::getpid()), self);
}

TEST(SystemProcessTable, KnowsTheJobsOfProcessesThatItSees) {
  EXPECT_TRUE(SystemProcessTable().job(::getpid()));
  EXPECT_FALSE(SystemProcessTable().job(-1));
  EXPECT_FALSE(SystemProcessTable().job(0));
}

TEST(ProcessIdentity, APidOfAnotherNamespaceHasNone) {
  EXPECT_FALSE(identify(SystemProcessTable(), 0));
  EXPECT_FALSE(identify(SystemProcessTable(), -1));
}

}  // namespace
}  // namespace lowgear::agent
