#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hardware/gpu/gpu.h"

namespace lowgear::gpu {

/// What one GPU can do, all of it read. Optional members are empty where the driver does not tell.
struct GpuSurvey {
  GpuIdentity identity;
  GpuFeatures features;
  std::optional<bool> persistence_mode;
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

/// Looks at NVML as open_nvml would load it. Throws GpuError as that does.
[[nodiscard]] NvmlSurvey survey_nvml();

}  // namespace lowgear::gpu
