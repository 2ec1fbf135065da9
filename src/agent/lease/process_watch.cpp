#include "agent/lease/process_watch.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <charconv>
#include <string>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"

namespace lowgear::agent {
namespace {

/// The start time is the 22nd field of /proc/PID/stat (proc(5)); the second, the name, may hold blanks and brackets.
std::optional<std::uint64_t> parse_start_ticks(std::string_view stat) {
  constexpr int kFieldsAfterName = 20;
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  std::string_view rest = stat.substr(name_end + 1);
  for (int field = 0; field < kFieldsAfterName; ++field) {
    const std::size_t blank = rest.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(blank + 1);
  }
  std::uint64_t ticks = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), ticks);
  if (error != std::errc()) return std::nullopt;
  return ticks;
}

/// A file of /proc about the process; empty when there is none.
std::optional<std::string> proc_text(pid_t pid, std::string_view name) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20U;
  try {
    return read_file("/proc/" + std::to_string(pid) + "/" + std::string(name), kMostBytes);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<std::uint64_t> SystemProcessTable::start_ticks(pid_t pid) const {
  const std::optional<std::string> stat = proc_text(pid, "stat");
  return stat ? parse_start_ticks(*stat) : std::nullopt;
}

std::optional<ProcessJob> SystemProcessTable::job(pid_t pid) const {
  const std::optional<std::string> cgroups = proc_text(pid, "cgroup");
  return cgroups ? std::optional(process_job_of(*cgroups)) : std::nullopt;
}

FileDescriptor SystemProcessTable::open(pid_t pid) const {
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

std::optional<ProcessIdentity> identify(const ProcessTable& processes, pid_t pid) {
  if (pid <= 0) return std::nullopt;
  const std::optional<std::uint64_t> start_ticks = processes.start_ticks(pid);
  if (!start_ticks) return std::nullopt;
  return ProcessIdentity{.pid = pid, .start_ticks = *start_ticks};
}

ProcessWatch::ProcessWatch(boost::asio::io_context& context, FileDescriptor process, std::function<void()> on_end)
    : descriptor_(context, process.release()) {
  descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                         [notify = std::move(on_end)](const boost::system::error_code& error) {
                           if (!error) notify();
                         });
}

std::unique_ptr<ProcessWatch> ProcessWatch::start(boost::asio::io_context& context, const ProcessTable& processes,
                                                  ProcessIdentity identity, std::function<void()> on_end) {
  FileDescriptor process = processes.open(identity.pid);
  // Only now is it certain that the descriptor is of the process that was identified: asked before, the pid could
  // have changed hands in between.
  if (process && processes.start_ticks(identity.pid) == identity.start_ticks) {
    return std::make_unique<ProcessWatch>(context, std::move(process), std::move(on_end));
  }
  const bool ended = processes.start_ticks(identity.pid) != identity.start_ticks;
  if (ended) boost::asio::post(context, std::move(on_end));
  return nullptr;
}

}  // namespace lowgear::agent
