#include "control/agent/lease/process_watch.h"

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
  [[nodiscard]] std::string slurm_job(pid_t) const override { return {}; }
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

/// As slurmd of 20.11 (cgroup v1) and 22.05 (v2) places tasks.
TEST(SlurmJob, IsThatOfTheCgroup) {
  EXPECT_EQ(slurm_job_of("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n"), "4711");
  EXPECT_EQ(slurm_job_of("0::/system.slice/node0_slurmstepd.scope/job_12/step_batch/slurm\n"), "12");
  EXPECT_EQ(slurm_job_of("12:cpuset:/\n4:freezer:/slurm/uid_1000/job_12/step_0\n1:name=systemd:/system.slice\n"), "12");
  EXPECT_EQ(slurm_job_of("4:memory:/slurm_node0/uid_1000/job_7/step_extern/task_1"), "7");
}

TEST(SlurmJob, IsNoneElsewhere) {
  for (const char* cgroups : {"", "\n", "0::/\n", "0::/user.slice/user-1000.slice/session-3.scope\n",
                              "0::/docker/job_12\n", "0::/system.slice/slurmd.service\n", "4:freezer:/slurm/uid_1000\n",
                              "0::/slurm/job_/step_0\n", "0::/slurm/job_1x/step_0\n", "0::/job_12/slurm\n"}) {
    EXPECT_EQ(slurm_job_of(cgroups), "") << cgroups;
  }
  EXPECT_EQ(SystemProcessTable().slurm_job(-1), "");
}

TEST(ProcessIdentity, APidOfAnotherNamespaceHasNone) {
  EXPECT_FALSE(identify(SystemProcessTable(), 0));
  EXPECT_FALSE(identify(SystemProcessTable(), -1));
}

}  // namespace
}  // namespace lowgear::agent
