#include "agent/lease/client_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <string>
#include <utility>

#include "base/core/eventually.h"

namespace lowgear::agent {

namespace {

/// Kind and id.
std::string job_of(std::string_view cgroups) {
  const ProcessJob job = process_job_of(cgroups);
  EXPECT_EQ(job.kind.empty(), job.cgroup.empty());
  return job.kind.empty() ? "none" : job.kind + ":" + job.id;
}

/// As slurmd of 20.11 (cgroup v1), 22.05 and 26.05 (v2) places tasks.
TEST(ProcessJob, IsThatOfSlurmsCgroup) {
  EXPECT_EQ(job_of("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n"), "Slurm job:4711");
  EXPECT_EQ(job_of("0::/system.slice/node0_slurmstepd.scope/job_12/step_batch/slurm\n"), "Slurm job:12");
  EXPECT_EQ(job_of("12:cpuset:/\n4:freezer:/slurm/uid_1000/job_12/step_0\n1:name=systemd:/system.slice\n"),
            "Slurm job:12");
  EXPECT_EQ(job_of("4:memory:/slurm_node0/uid_1000/job_7/step_extern/task_1"), "Slurm job:7");
  EXPECT_EQ(job_of("0::/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0/user/task_0\n"),
            "Slurm job:s5K1KKYAYG5D00");
  EXPECT_EQ(job_of("0::/../../gpu.slice/node7_slurmstepd.scope/sEKNKTV3WPV500/step_batch/user"),
            "Slurm job:sEKNKTV3WPV500");
}

TEST(ProcessJob, IsUnknownWhereSlurmsCgroupNamesNoneOrTwo) {
  for (const char* cgroups :
       {"0::/system.slice/slurmstepd.scope\n", "4:freezer:/slurm/uid_1000\n", "4:freezer:/slurm_node7/uid_1000/\n",
        "0::/slurm/job_/step_0\n", "5:cpuset:/slurm/uid_1/job_1/step_0\n4:freezer:/slurm/uid_1/job_2/step_0\n"}) {
    EXPECT_EQ(job_of(cgroups), "Slurm job:") << cgroups;
  }
  EXPECT_EQ(job_of("5:cpuset:/slurm/uid_1\n4:freezer:/slurm/uid_1/job_2/step_0\n"), "Slurm job:2");
}

TEST(ProcessJob, IsNotWhatAUserCanMakeBelowIt) {
  EXPECT_EQ(job_of("0::/system.slice/slurmstepd.scope/job_13/step_0/user/task_0/slurm/uid_1/job_12"), "Slurm job:13");
  EXPECT_EQ(job_of("0::/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0/user/task_0/job_12"),
            "Slurm job:s5K1KKYAYG5D00");
  EXPECT_EQ(job_of("4:freezer:/slurm/uid_1000/job_13/step_0/docker/0123456789ab"), "Slurm job:13");
  EXPECT_EQ(job_of("9:name=x:/" + std::string(10'000, 'x') + "\n4:freezer:/slurm/uid_1/job_13/step_0"), "Slurm job:13");
}

TEST(ProcessJob, IsThatOfOtherManagers) {
  for (const auto& [cgroups, expected] : {
           std::pair{"5:memory:/pbs_jobs.service/jobid/12.server", "PBS job:12.server"},
           {"0::/pbspro.service/jobid/12.server/", "PBS job:12.server"},
           {"0::/pbs_jobs.service/jobid", "PBS job:"},
           {"5:memory:/lsf/cluster1/job.123.11.1457", "LSF job:123"},
           {"5:memory:/lsf/cluster1", "LSF job:"},
           {"0::/kubepods/burstable/pod12ab-34/0123456789ab", "pod:12ab-34"},
           {"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod12ab_34.slice/cri-containerd-0.scope",
            "pod:12ab-34"},
           {"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod12ab_34.slice", "pod:12ab-34"},
           {"0::/kubepods.slice/kubepods-besteffort.slice", "pod:"},
           {"0::/docker/0123456789ab", "container:0123456789ab"},
           {"0::/system.slice/docker-0123456789ab.scope", "container:0123456789ab"},
           {"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-01ab.scope/container",
            "container:01ab"},
           {"0::/lxc.payload.c1/init.scope", "container:c1"},
           {"0::/kubepods/pod12/0123/system.slice/slurmstepd.scope/job_12/step_0", "Slurm job:12"},
       }) {
    EXPECT_EQ(job_of(cgroups), expected) << cgroups;
  }
}

TEST(ProcessJob, IsNoneElsewhere) {
  for (const char* cgroups : {"", "\n", ":", "::", "0::", "0::/\n", "0::/user.slice/user-1000.slice/session-3.scope\n",
                              "0::/system.slice/slurmd.service\n", "0::/system.slice/slurm_exporter.service\n",
                              "0::/slurm\n", "0::/system.slice/docker.service\n", "0::/job_12/slurm\n"}) {
    EXPECT_EQ(job_of(cgroups), "none") << cgroups;
  }
}

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
