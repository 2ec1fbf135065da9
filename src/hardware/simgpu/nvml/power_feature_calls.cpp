#include "hardware/simgpu/nvml/session.h"

// Workload power profiles and power smoothing: kept and reported, without effect on time and power.

namespace lowgear::simgpu::nvml {
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
