// Calls that change a GPU. Only root may, as on a real machine. Workload power profiles and power smoothing are kept
// and reported, without effect on time and power.

#include <algorithm>

#include "hardware/simgpu/nvml/session.h"

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

namespace {

bool has_profiles(const SimulatedGpu& gpu) { return gpu.model().power_features.profiles != 0; }
bool has_smoothing(const SimulatedGpu& gpu) { return gpu.model().power_features.smoothing_presets != 0; }

Mask255 mask_of(PowerProfileMask profiles) {
  Mask255 mask{};
  mask.words[0] = profiles;
  return mask;
}

/// Whether a profile is named that no GPU of the simulation has.
bool is_beyond(const Mask255& mask) {
  for (std::size_t word = 1; word < std::size(mask.words); ++word) {
    if (mask.words[word] != 0) return true;
  }
  return false;
}

/// The checks that calls with a versioned structure share, in the driver's order: the GPU, the pointer, the version.
template <typename Struct, typename Action>
Return answer_versioned(Device device, std::string_view call, bool (*has)(const SimulatedGpu&), Struct* value,
                        Action&& action) {
  return answer_for(device, call, [&](SimulatedGpu& gpu) {
    if (!has(gpu)) return Return::not_supported;
    if (value == nullptr) return Return::invalid_argument;
    if (value->version != struct_version<Struct>(1)) return Return::argument_version_mismatch;
    return action(gpu);
  });
}

/// The same for what only root may change.
template <typename Struct, typename Action>
Return answer_versioned_setter(Device device, std::string_view call, bool (*has)(const SimulatedGpu&), Struct* value,
                               Action&& action) {
  return answer_versioned(device, call, has, value, [&](SimulatedGpu& gpu) {
    if (!may_set(*Session::instance().machine())) return Return::no_permission;
    action(gpu);
    return Return::success;
  });
}

/// Adds profiles to those that are requested, or removes them.
void update(SimulatedGpu& gpu, std::uint32_t operation, const Mask255& mask) {
  const PowerProfileMask requested = gpu.readings().requested_power_profiles;
  const PowerProfileMask profiles = mask.words[0];
  switch (operation) {
    case kRemoveWorkloadPowerProfiles:
      return gpu.control().request_power_profiles(requested & ~profiles);
    case kAddWorkloadPowerProfiles:
      return gpu.control().request_power_profiles(requested | profiles);
    case kReplaceWorkloadPowerProfiles:
      return gpu.control().request_power_profiles(profiles);
    default:
      throw InputError("no such operation");
  }
}

}  // namespace

LOWGEAR_NVML nvmlDeviceWorkloadPowerProfileGetProfilesInfo(Device device, WorkloadPowerProfilesInfoV1* info) {
  return answer_versioned(device, "DeviceWorkloadPowerProfileGetProfilesInfo", has_profiles, info,
                          [&](SimulatedGpu& gpu) {
                            const auto& features = gpu.model().power_features;
                            *info = {};
                            info->version = struct_version<WorkloadPowerProfilesInfoV1>(1);
                            info->supported = mask_of(features.profiles);
                            for (unsigned profile = 0; profile < kSimulatedPowerProfiles; ++profile) {
                              if ((features.profiles >> profile & 1U) == 0) continue;
                              info->profiles[profile] = {.version = struct_version<WorkloadPowerProfileInfoV1>(1),
                                                         .profile_id = profile,
                                                         .priority = profile,
                                                         .conflicting = mask_of(features.conflicts.at(profile))};
                            }
                            return Return::success;
                          });
}
LOWGEAR_NVML nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(Device device, WorkloadPowerProfilesCurrentV1* current) {
  return answer_versioned(device, "DeviceWorkloadPowerProfileGetCurrentProfiles", has_profiles, current,
                          [&](SimulatedGpu& gpu) {
                            const auto now = gpu.readings();
                            current->supported = mask_of(gpu.model().power_features.profiles);
                            current->requested = mask_of(now.requested_power_profiles);
                            current->enforced = mask_of(now.enforced_power_profiles);
                            return Return::success;
                          });
}
LOWGEAR_NVML nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1(Device device,
                                                             const WorkloadPowerProfileUpdateV1* profiles) {
  return answer_for(device, "DeviceWorkloadPowerProfileUpdateProfiles", [&](SimulatedGpu& gpu) {
    if (!has_profiles(gpu)) return Return::not_supported;
    if (profiles == nullptr || is_beyond(profiles->profiles)) return Return::invalid_argument;
    if (!may_set(*Session::instance().machine())) return Return::no_permission;
    update(gpu, profiles->operation, profiles->profiles);
    return Return::success;
  });
}
LOWGEAR_NVML nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(Device device,
                                                                const WorkloadPowerProfileRequestV1* profiles) {
  return answer_versioned_setter(device, "DeviceWorkloadPowerProfileUpdateProfiles", has_profiles, profiles,
                                 [&](SimulatedGpu& gpu) {
                                   if (is_beyond(profiles->requested)) throw InputError("no such profile");
                                   update(gpu, kAddWorkloadPowerProfiles, profiles->requested);
                                 });
}
LOWGEAR_NVML nvmlDeviceWorkloadPowerProfileClearRequestedProfiles(Device device,
                                                                  const WorkloadPowerProfileRequestV1* profiles) {
  return answer_versioned_setter(
      device, "DeviceWorkloadPowerProfileUpdateProfiles", has_profiles, profiles,
      [&](SimulatedGpu& gpu) { update(gpu, kRemoveWorkloadPowerProfiles, profiles->requested); });
}

LOWGEAR_NVML nvmlDevicePowerSmoothingSetState(Device device, const PowerSmoothingStateV1* state) {
  return answer_versioned_setter(device, "DevicePowerSmoothingSetState", has_smoothing, state, [&](SimulatedGpu& gpu) {
    if (state->state > kEnabled) throw InputError("no such state");
    gpu.control().set_power_smoothing(state->state == kEnabled);
  });
}
LOWGEAR_NVML nvmlDevicePowerSmoothingActivatePresetProfile(Device device, const PowerSmoothingProfileV1* profile) {
  return answer_versioned_setter(device, "DevicePowerSmoothingActivatePresetProfile", has_smoothing, profile,
                                 [&](SimulatedGpu& gpu) {
                                   if (profile->profile_id > kMaxPowerSmoothingPresets) {
                                     throw InputError("no such preset");
                                   }
                                   gpu.control().activate_power_smoothing_preset(static_cast<int>(profile->profile_id));
                                 });
}

}  // namespace lowgear::simgpu::nvml
