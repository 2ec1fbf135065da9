#pragma once

#include <memory>
#include <string>

#include "hardware/gpu/gpu.h"

namespace lowgear::gpu {

/// The GPUs that NVML shows, for reading. Throws GpuError (driver_missing) where there is no NVIDIA driver. May be
/// opened again after a fork; what was opened before belongs to the parent.
[[nodiscard]] std::unique_ptr<GpuSystem> open_nvml();

}  // namespace lowgear::gpu
