#include "agent/journal/machine_lock.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>

#include "base/core/files/user_database.h"
#include "hardware/simgpu/simulated_machine.h"

namespace lowgear::agent {
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
