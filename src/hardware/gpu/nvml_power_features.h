#pragma once

#include "hardware/gpu/nvml_gpu.h"
#include "hardware/gpu/power_smoothing.h"
#include "hardware/gpu/workload_power_profile.h"

/// Power features of NVML that only some drivers and GPUs have. Every function throws GpuError: not_supported where the
/// driver lacks the call or does not accept this version of its structure, or the GPU lacks the feature.
namespace lowgear::gpu {

[[nodiscard]] WorkloadPowerProfiles read_workload_power_profiles(const NvmlGpu& gpu);
/// Throws GpuError (invalid_value), naming them, for profiles that the GPU lacks or that conflict with each other.
void require_without_conflicts(const NvmlGpu& gpu, const WorkloadPowerProfileSet& profiles);
/// Requests exactly these profiles, instead of those that are requested.
void request_workload_power_profiles(const NvmlGpu& gpu, const WorkloadPowerProfileSet& profiles);

[[nodiscard]] PowerSmoothing read_power_smoothing(const NvmlGpu& gpu);
void enable_power_smoothing(const NvmlGpu& gpu, bool enabled);
void activate_power_smoothing_preset(const NvmlGpu& gpu, int preset);

/// Sets the limit of the GPU alone, by the driver's newest call.
void set_power_limit_mw(const NvmlGpu& gpu, unsigned limit_mw);

}  // namespace lowgear::gpu
