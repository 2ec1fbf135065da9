#include "hardware/gpu/nvml_system.h"

#include "hardware/gpu/nvml_gpu.h"

namespace lowgear::gpu {

std::unique_ptr<GpuSystem> open_nvml() { return std::make_unique<NvmlSystemOf<GpuSystem>>(NvmlLibrary::open()); }

}  // namespace lowgear::gpu
