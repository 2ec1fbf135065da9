#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "hardware/simgpu/nvml/abi.h"
#include "hardware/simgpu/simulated_machine.h"

/// Marks a function of NVML's C interface.
#define LOWGEAR_NVML extern "C" __attribute__((visibility("default"))) lowgear::simgpu::nvml::Return

namespace lowgear::simgpu::nvml {

/// Target of nvmlDevice_t.
struct Handle {
  int index = 0;
};

/// The simulation as one process sees it between nvmlInit and nvmlShutdown.
class Session {
 public:
  /// The session of this process: a C interface has nowhere else to keep it.
  static Session& instance();

  /// Counted, as NVML does.
  Return init();
  Return shutdown();

  /// The machine; null before `init`.
  [[nodiscard]] std::shared_ptr<SimulatedMachine> machine();
  /// Handle of a GPU; null when there is no such index.
  [[nodiscard]] Device handle(int index);
  /// Index of a handle; empty for a foreign one.
  [[nodiscard]] std::optional<int> index_of(Device device);

 private:
  std::mutex mutex_;
  int users_ = 0;
  std::shared_ptr<SimulatedMachine> machine_;
  std::vector<std::unique_ptr<Handle>> handles_;
};

/// NVML's return code for the current exception. Call this from a handler.
[[nodiscard]] Return code_of_current_exception() noexcept;

/// The return code of a fault that is set for this call, after its delay; empty when the call continues.
[[nodiscard]] std::optional<Return> strike(SimulatedMachine& machine, SimulatedGpu& gpu, std::string_view call);

/// Answers a call that concerns no GPU. `action` takes the machine and returns a Return; it may throw.
template <typename Action>
Return answer(Action&& action) noexcept {
  try {
    const std::shared_ptr<SimulatedMachine> machine = Session::instance().machine();
    if (!machine) return Return::uninitialized;
    return action(*machine);
  } catch (...) {
    return code_of_current_exception();
  }
}

/// Answers a call on a GPU: checks the session and the handle, lets faults strike, then `action` takes the GPU and
/// returns a Return; it may throw. `call` is NVML's name without prefix.
template <typename Action>
Return answer_for(Device device, std::string_view call, Action&& action) noexcept {
  return answer([&](SimulatedMachine& machine) {
    const std::optional<int> index = Session::instance().index_of(device);
    if (!index) return Return::invalid_argument;
    SimulatedGpu& gpu = machine.gpu(*index);
    if (const std::optional<Return> fault = strike(machine, gpu, call)) return *fault;
    return action(gpu);
  });
}

/// Answers a call that sets something on a GPU: only for root, unless the machine says otherwise.
template <typename Action>
Return answer_setter(Device device, std::string_view call, Action&& action) noexcept;

/// Stores a value at the client's address.
template <typename Target, typename Value>
Return give(Target* target, Value value) {
  if (target == nullptr) return Return::invalid_argument;
  *target = static_cast<Target>(value);
  return Return::success;
}

/// Stores a text at the client's address, with its final NUL.
[[nodiscard]] Return give_text(char* target, std::uint32_t capacity, std::string_view text);

/// Whether this process may call setters.
[[nodiscard]] bool may_set(const SimulatedMachine& machine);

template <typename Action>
Return answer_setter(Device device, std::string_view call, Action&& action) noexcept {
  return answer_for(device, call, [&](SimulatedGpu& gpu) {
    if (!may_set(*Session::instance().machine())) return Return::no_permission;
    action(gpu);
    return Return::success;
  });
}

/// Version of the simulated driver: 580.159.04, or LOWGEAR_SIMGPU_DRIVER.
[[nodiscard]] std::string_view simulated_driver_version();

}  // namespace lowgear::simgpu::nvml
