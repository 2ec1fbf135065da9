#include "agent/journal/file_locks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>

#include "base/core/error.h"
#include "base/core/files/user_database.h"
#include "base/core/numbers/number.h"
#include "base/ipc/held_file.h"
#include "hardware/simgpu/simulated_machine.h"

namespace lowgear::agent {

namespace {

FileDescriptor open_or_make(const std::filesystem::path& path) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
  // Made only where there is none: in a folder such as /dev/shm the kernel refuses O_CREAT for the file of another
  // user.
  FileDescriptor file(::open(path.c_str(), kFlags));
  if (!file && errno == ENOENT) file = FileDescriptor(::open(path.c_str(), kFlags | O_CREAT, 0600));
  // A lock on a read-only file system can be held, too.
  if (!file && errno == EROFS) file = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file) return file;
  throw InputError(fmt::format("{}: the lock cannot be opened: {}; it has to be a file of the user who runs the agent",
                               printable(path.string()), std::generic_category().message(errno)));
}

LockHolder parse_holder(const std::string& text) {
  LockHolder holder;
  const std::size_t end = text.find('\n');
  if (end == std::string::npos || !text.ends_with('\n')) return holder;  // it has not said so yet
  holder.pid = static_cast<pid_t>(parse_integer(text.substr(0, end)).value_or(0));
  holder.control_socket = text.substr(end + 1, text.size() - end - 2);
  return holder;
}

}  // namespace

std::string describe(const LockHolder& holder) {
  if (holder.pid == 0) return "another agent";
  if (holder.control_socket.empty()) return fmt::format("another agent (process {})", holder.pid);
  return fmt::format("another agent (process {}, which answers at {})", holder.pid,
                     printable(holder.control_socket.string()));
}

LockFile::LockFile(const std::filesystem::path& path) : path_(path), file_(open_or_make(path)) {}

std::optional<LockHolder> LockFile::take(const LockHolder& self) {
  const ipc::FileHold hold = ipc::hold_file(file_, fmt::format("{}\n{}\n", self.pid, self.control_socket.string()));
  if (hold.outcome == ipc::FileHold::Outcome::unsupported) {
    throw InputError(
        fmt::format("{}: its file system has no locks; name a folder on another one", printable(path_.string())));
  }
  if (hold.outcome == ipc::FileHold::Outcome::taken) return parse_holder(hold.holder);
  return std::nullopt;
}

namespace {

constexpr const char* kRealMachine = "/run/lowgear/machine.lock";

/// For everybody to look into: sockets may lie there, too.
void make_folder(const std::filesystem::path& folder) {
  constexpr mode_t kMode = 0755;
  if (::mkdir(folder.c_str(), kMode) == 0) {
    ::chmod(folder.c_str(), kMode);  // whatever the umask is
  } else if (errno != EEXIST) {
    throw InputError(fmt::format("{}: the folder of the machine's lock cannot be made: {}", printable(folder.string()),
                                 std::generic_category().message(errno)));
  }
}

}  // namespace

std::filesystem::path machine_lock_path(const gpu::GpuSystem& system) {
  if (!system.simulated()) return kRealMachine;
  // However it is spelt.
  std::filesystem::path lock = std::filesystem::canonical(simgpu::SimulatedMachine::path_from_environment());
  return lock += ".agent";
}

LockFile hold_machine(const std::filesystem::path& lock, const std::filesystem::path& control_socket) {
  make_folder(lock.parent_path());
  LockFile file(lock);
  if (const std::optional<LockHolder> holder = file.take({.pid = ::getpid(), .control_socket = control_socket})) {
    throw MachineHeld(
        fmt::format("{} may change this machine's GPUs, and a machine has only one agent; end that one first: it "
                    "holds {}",
                    describe(*holder), printable(lock.string())));
  }
  return file;
}

}  // namespace lowgear::agent
