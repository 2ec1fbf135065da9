#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"
#include "hardware/gpu/gpu.h"

namespace lowgear::agent {

/// The process that holds a lock, as it says itself.
struct LockHolder {
  pid_t pid = 0;                         ///< in its own pid namespace; 0 when not known
  std::filesystem::path control_socket;  ///< where it answers HTTP; empty when nowhere
};

/// `another agent (process 7, which answers at /run/lowgear/agent.sock)`, as far as it is known.
[[nodiscard]] std::string describe(const LockHolder& holder);

/// A file that one process of the machine locks until it ends, and that contains the identity of this process.
class LockFile {
 public:
  /// Opens the file, and makes it if need be, for this user alone; on a file system for reading only it has to be
  /// there. Throws InputError, also for a symbolic link.
  explicit LockFile(const std::filesystem::path& path);

  /// Holds the lock for as long as this lives, and returns nothing; when another process holds it, returns that one. On
  /// a full disk, or one for reading only, it is held all the same, by a process that is not known. Throws InputError
  /// where files have no locks.
  [[nodiscard]] std::optional<LockHolder> take(const LockHolder& self);

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

/// Another process changes the GPUs of this machine.
class MachineHeld : public InputError {
 public:
  using InputError::InputError;
};

/// The lock of the machine with these GPUs, independent of an agent's journal and sockets: in /run/lowgear for real
/// GPUs, next to its file for a simulated machine.
[[nodiscard]] std::filesystem::path machine_lock_path(const gpu::GpuSystem& system);

/// Takes the lock for this process, which answers at `control_socket` (empty: nowhere). Makes the lock's folder when it
/// is not there. Throws MachineHeld, naming who holds it, and InputError when the lock cannot be made.
[[nodiscard]] LockFile hold_machine(const std::filesystem::path& lock, const std::filesystem::path& control_socket);

}  // namespace lowgear::agent
