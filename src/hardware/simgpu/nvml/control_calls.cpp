#include <algorithm>

#include "hardware/simgpu/nvml/session.h"

// Calls that change a GPU. Only root may, as on a real machine.

namespace lowgear::simgpu::nvml {
namespace {

bool is_symbolic(unsigned clock) { return clock == kClockLimitTdp || clock == kClockLimitUnlimited; }

/// Locks to what the GPU can do within the range that was asked for. NVML takes either two clocks or two limits by
/// name; the highest clock is what TDP allows here.
void lock_sm_clocks(SimulatedGpu& gpu, unsigned min_mhz, unsigned max_mhz) {
  constexpr unsigned kHighestClockMhz = 1'000'000;
  if (is_symbolic(min_mhz) != is_symbolic(max_mhz)) throw InputError("a clock and a limit do not mix");
  const ClockRange& range = gpu.model().sm_clocks;
  if (is_symbolic(min_mhz)) {
    if (min_mhz == kClockLimitUnlimited && max_mhz == kClockLimitUnlimited) {
      gpu.control().reset_sm_clocks();
    } else {
      gpu.control().lock_sm_clocks(range.min_mhz, range.max_mhz);
    }
    return;
  }
  if (min_mhz > max_mhz || max_mhz > kHighestClockMhz) throw InputError("no range of clocks");
  const int low_mhz = range.at_or_above(static_cast<int>(min_mhz));
  const int high_mhz = range.at_or_below(static_cast<int>(max_mhz));
  gpu.control().lock_sm_clocks(std::min(low_mhz, high_mhz), high_mhz);
}

}  // namespace

LOWGEAR_NVML nvmlDeviceSetGpuLockedClocks(Device device, unsigned min_mhz, unsigned max_mhz) {
  return answer_setter(device, "DeviceSetGpuLockedClocks",
                       [&](SimulatedGpu& gpu) { lock_sm_clocks(gpu, min_mhz, max_mhz); });
}
LOWGEAR_NVML nvmlDeviceResetGpuLockedClocks(Device device) {
  return answer_setter(device, "DeviceResetGpuLockedClocks",
                       [](SimulatedGpu& gpu) { gpu.control().reset_sm_clocks(); });
}
LOWGEAR_NVML nvmlDeviceSetMemoryLockedClocks(Device device, unsigned min_mhz, unsigned max_mhz) {
  return answer_setter(device, "DeviceSetMemoryLockedClocks", [&](SimulatedGpu& gpu) {
    if (min_mhz > max_mhz || max_mhz > 1'000'000U) throw InputError("no range of clocks");
    gpu.control().lock_memory_clocks(static_cast<int>(min_mhz), static_cast<int>(max_mhz));
  });
}
LOWGEAR_NVML nvmlDeviceResetMemoryLockedClocks(Device device) {
  return answer_setter(device, "DeviceResetMemoryLockedClocks",
                       [](SimulatedGpu& gpu) { gpu.control().reset_memory_clocks(); });
}
LOWGEAR_NVML nvmlDeviceSetPowerManagementLimit(Device device, unsigned limit_mw) {
  return answer_setter(device, "DeviceSetPowerManagementLimit",
                       [&](SimulatedGpu& gpu) { gpu.control().set_power_limit_w(limit_mw * 1e-3); });
}
LOWGEAR_NVML nvmlDeviceSetPowerManagementLimit_v2(Device device, const PowerValueV2* value) {
  return answer_for(device, "DeviceSetPowerManagementLimit", [&](SimulatedGpu& gpu) {
    if (value == nullptr) return Return::invalid_argument;
    if (value->version != struct_version<PowerValueV2>(2)) return Return::argument_version_mismatch;
    if (value->scope != kPowerScopeGpu) return Return::not_supported;
    if (!may_set(*Session::instance().machine())) return Return::no_permission;
    gpu.control().set_power_limit_w(value->power_mw * 1e-3);
    return Return::success;
  });
}
LOWGEAR_NVML nvmlDeviceSetPersistenceMode(Device device, unsigned mode) {
  return answer_setter(device, "DeviceSetPersistenceMode", [&](SimulatedGpu& gpu) {
    if (mode > kEnabled) throw InputError("no such mode");
    gpu.control().set_persistence_mode(mode == kEnabled);
  });
}

// Events: sets may be made, and nothing ever happens in them.

LOWGEAR_NVML nvmlEventSetCreate(void** set) {
  return answer([&](SimulatedMachine&) { return give(set, static_cast<void*>(&Session::instance())); });
}
LOWGEAR_NVML nvmlEventSetFree(void* /*set*/) {
  return answer([](SimulatedMachine&) { return Return::success; });
}
LOWGEAR_NVML nvmlEventSetWait_v2(void* /*set*/, EventData* /*data*/, unsigned timeout_ms) {
  return answer([&](SimulatedMachine& machine) {
    machine.wait(timeout_ms * 1e-3);
    return Return::timeout;
  });
}

}  // namespace lowgear::simgpu::nvml
