#pragma once

#include <memory>

#include "hardware/gpu/gpu_control.h"

namespace lowgear::gpu {

/// The GPUs that NVML shows, for reading and setting. Throws GpuError (driver_missing) where there is no NVIDIA driver.
/// Setters fail with no_permission unless the process is root.
[[nodiscard]] std::unique_ptr<GpuControlSystem> open_nvml_control();

}  // namespace lowgear::gpu
