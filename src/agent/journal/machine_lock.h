#pragma once

#include <filesystem>

#include "agent/journal/lock_file.h"
#include "base/core/error.h"
#include "hardware/gpu/gpu.h"

namespace lowgear::agent {

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
