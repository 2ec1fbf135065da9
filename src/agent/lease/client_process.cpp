#include "agent/lease/client_process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"

namespace lowgear::agent {

namespace {

using Path = std::vector<std::string_view>;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string_view at(const Path& path, std::size_t i) { return i < path.size() ? path[i] : std::string_view(); }

/// What stands between the two; empty when the text does not begin and end so.
std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  if (text.size() < begin.size() + end.size() || !text.starts_with(begin) || !text.ends_with(end)) return {};
  return text.substr(begin.size(), text.size() - begin.size() - end.size());
}

// Each finds in a path which job of its manager it is: an empty id where the path is one of the manager and names no
// job, nothing where it is none. What is deeper in the path than the job may be the user's own.

std::optional<std::string> slurm_job(const Path& path) {
  for (std::size_t i = 0; i < path.size(); ++i) {
    // slurmstepd.scope, node7_slurmstepd.scope; slurm and slurm_node7, but not slurmd.service or slurm_exporter.service
    const bool version_1 = path[i] == "slurm" || path[i].starts_with("slurm_");
    const bool below_user = at(path, i + 1).starts_with("uid_");
    if (path[i].find("slurmstepd") == std::string_view::npos &&
        !(version_1 && (below_user || at(path, i + 1).starts_with("job_")))) {
      continue;
    }
    std::string_view job = at(path, i + (below_user ? 2 : 1));
    if (job.starts_with("job_")) job.remove_prefix(4);
    return std::string(job);
  }
  return std::nullopt;
}

std::optional<std::string> pbs_job(const Path& path) {
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == "pbspro" || path[i] == "pbspro.service" || path[i] == "pbs_jobs" || path[i] == "pbs_jobs.service") {
      return std::string(at(path, i + (at(path, i + 1) == "jobid" ? 2 : 1)));
    }
  }
  return std::nullopt;
}

std::optional<std::string> lsf_job(const Path& path) {
  const auto lsf = std::ranges::find(path, "lsf");
  if (lsf == path.end()) return std::nullopt;
  const std::string_view name =
      at(path, static_cast<std::size_t>(lsf - path.begin()) + 2);  // after that of the cluster
  const Path parts = split(name, '.');
  return std::string(at(parts, 0) == "job" ? at(parts, 1) : std::string_view());
}

std::optional<std::string> kubernetes_pod(const Path& path) {
  bool found = false;
  for (const std::string_view part : path) {
    const bool below_kubepods = std::exchange(found, found || part.find("kubepods") != std::string_view::npos);
    const std::size_t pod = part.rfind("-pod");
    std::string uid;
    if (below_kubepods && part.starts_with("pod")) uid = part.substr(3);
    if (found && pod != std::string_view::npos) uid = between(part.substr(pod), "-pod", ".slice");
    if (uid.empty()) continue;
    std::ranges::replace(uid, '_', '-');  // as systemd has it
    return uid;
  }
  return found ? std::optional(std::string()) : std::nullopt;
}

std::optional<std::string> container(const Path& path) {
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == "docker" || path[i] == "lxc" || path[i] == "libpod_parent") return std::string(at(path, i + 1));
    if (path[i].starts_with("lxc.payload.")) return std::string(path[i].substr(12));
    for (const char* engine : {"docker-", "libpod-", "crio-", "cri-containerd-", "nerdctl-"}) {
      if (const std::string_view id = between(path[i], engine, ".scope"); !id.empty()) return std::string(id);
    }
  }
  return std::nullopt;
}

struct Kind {
  const char* name;
  std::optional<std::string> (*job)(const Path& path);
};

/// A manager's job may run in a container or pod, and a container in a job: the job counts.
constexpr auto kKinds = std::to_array<Kind>({{"Slurm job", slurm_job},
                                             {"PBS job", pbs_job},
                                             {"LSF job", lsf_job},
                                             {"pod", kubernetes_pod},
                                             {"container", container}});

/// The path of a line such as `4:freezer:/slurm/uid_1000`.
std::string_view path_of(std::string_view line) {
  const std::size_t path = line.find(':', std::min(line.find(':'), line.size() - 1) + 1);
  return path == std::string_view::npos ? std::string_view() : line.substr(path + 1);
}

}  // namespace

ProcessJob process_job_of(std::string_view cgroups) {
  const std::vector<std::string_view> lines = split(cgroups, '\n');
  for (const Kind& kind : kKinds) {
    ProcessJob job;
    bool two = false;
    for (const std::string_view line : lines) {
      const std::string_view cgroup = path_of(line);
      std::optional<std::string> id = kind.job(split(cgroup, '/'));
      if (!id) continue;
      two = two || (!job.id.empty() && !id->empty() && job.id != *id);
      if (job.id.empty()) job = {.kind = kind.name, .id = *std::move(id), .cgroup = std::string(cgroup)};
    }
    if (two) job.id.clear();
    if (!job.kind.empty()) return job;
  }
  return {};
}

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
