#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/service/agent_service.h"
#include "base/core/files/file_descriptor.h"

namespace lowgear::agent {

/// The job that a process is of by its control group, which its user cannot leave.
struct ProcessJob {
  std::string kind;    ///< `Slurm job`, `pod`, ...; empty: the control group is of no job manager that is known
  std::string id;      ///< as the control group names it: `4711`, `s5K1KKYAYG5D00`; empty where it names none, or two
  std::string cgroup;  ///< its path
};

/// From the text of /proc/PID/cgroup. Known are the paths of
/// - Slurm: `0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0`, from 26.05 on with the job's SLUID instead
/// of
///   `job_12`, and before version 2 of control groups `4:freezer:/slurm/uid_1000/job_12/step_0`;
/// - PBS: `/pbs_jobs.service/jobid/12.server`; LSF: `/lsf/cluster/job.12.1.7`;
/// - pods of Kubernetes: `/kubepods/burstable/podUID/...`, also as systemd names them;
/// - containers: `/docker/ID`, `/system.slice/docker-ID.scope`, `libpod-ID.scope` and the like.
[[nodiscard]] ProcessJob process_job_of(std::string_view cgroups);

/// A process and when it started: pids are given out anew, the pair is not.
struct ProcessIdentity {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  ///< since boot, `starttime` of /proc/PID/stat

  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// The processes of this machine, as far as the agent has to know them.
class ProcessTable {
 public:
  virtual ~ProcessTable() = default;
  /// Empty when there is no such process.
  [[nodiscard]] virtual std::optional<std::uint64_t> start_ticks(pid_t pid) const = 0;
  /// A descriptor that becomes readable when the process ends. None when there is no such process, or the system has
  /// no such descriptors (before Linux 5.3) or none left.
  [[nodiscard]] virtual FileDescriptor open(pid_t pid) const = 0;
  /// The job that the process is of; empty when there is no such process here.
  [[nodiscard]] virtual std::optional<ProcessJob> job(pid_t pid) const = 0;
};

/// /proc and pidfd_open.
class SystemProcessTable final : public ProcessTable {
 public:
  [[nodiscard]] std::optional<std::uint64_t> start_ticks(pid_t pid) const override;
  [[nodiscard]] FileDescriptor open(pid_t pid) const override;
  [[nodiscard]] std::optional<ProcessJob> job(pid_t pid) const override;
};

/// The identity of the process that has this pid now; empty when there is none. A pid of 0 (a process in a pid
/// namespace that this one cannot see) has none.
[[nodiscard]] std::optional<ProcessIdentity> identify(const ProcessTable& processes, pid_t pid);

/// Calls back once when a process ends, on the thread of the io_context. A forked child that holds on to the process'
/// connections does not delay that.
class ProcessWatch {
 public:
  ProcessWatch(boost::asio::io_context& context, FileDescriptor process, std::function<void()> on_end);
  /// Watches the process; nothing when it cannot be watched. Should the pid have gone to another process between
  /// `identity` and now, the callback comes at once.
  [[nodiscard]] static std::unique_ptr<ProcessWatch> start(boost::asio::io_context& context,
                                                           const ProcessTable& processes, ProcessIdentity identity,
                                                           std::function<void()> on_end);

 private:
  boost::asio::posix::stream_descriptor descriptor_;
};

}  // namespace lowgear::agent
