#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hardware/gpu/gpu.h"

namespace lowgear::gpu {

/// Which processes may use a GPU, with NVML's numbers (nvmlComputeMode_t).
enum class ComputeMode : unsigned char { shared = 0, exclusive_thread = 1, prohibited = 2, exclusive_process = 3 };
/// As nvidia-smi names it, in lower case: `default`, `exclusive-process`.
[[nodiscard]] std::string_view name(ComputeMode mode);

/// Abilities and settings of one GPU, as read. Optional members are empty when the driver does not report them.
struct GpuSurvey {
  GpuIdentity identity;
  GpuFeatures features;
  std::optional<bool> persistence_mode;
  std::optional<ComputeMode> compute_mode = {};
  std::optional<PowerLimits> power_limits;
  std::vector<int> supported_sm_clocks_mhz;  ///< highest first
  std::optional<WorkloadPowerProfiles> workload_power_profiles = {};
  std::optional<PowerSmoothing> power_smoothing = {};
};

/// NVML on this machine, and the GPUs that it shows.
struct NvmlSurvey {
  std::string library_path;  ///< file that was loaded
  std::string driver_version;
  bool simulated = false;
  std::vector<GpuSurvey> gpus;
  std::vector<std::string> problems;  ///< GPUs that could not be opened
};

/// Surveys the NVML that open_nvml would load. Throws GpuError as open_nvml does.
[[nodiscard]] NvmlSurvey survey_nvml();

/// The GPUs that NVML shows, for reading. Throws GpuError (driver_missing) where there is no NVIDIA driver. A forked
/// child opens it again; the parent's object stays the parent's.
[[nodiscard]] std::unique_ptr<GpuSystem> open_nvml();

}  // namespace lowgear::gpu
