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

#include "agent/lease/process_job.h"
#include "agent/service/agent_service.h"
#include "base/core/files/file_descriptor.h"

namespace lowgear::agent {

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
