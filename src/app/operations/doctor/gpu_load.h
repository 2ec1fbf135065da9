#pragma once

#include <memory>
#include <string>

namespace lowgear::operations::doctor {

/// Work on one GPU whose time is proportional to 1 / SM clock, which shows when the clock changes.
class GpuLoad {
 public:
  virtual ~GpuLoad() = default;
  /// Computes for about kGpuLoadS at the highest SM clock, and returns when that is done. Throws Error when the GPU
  /// fails.
  virtual void run() = 0;
};
inline constexpr double kGpuLoadS = 0.02;

/// On the GPU with this UUID of the simulated machine that LOWGEAR_SIMGPU names. Throws InputError when there is none.
[[nodiscard]] std::unique_ptr<GpuLoad> simulated_gpu_load(const std::string& uuid);

/// On the GPU at this PCI address, by CUDA's driver library (libcuda.so.1), on one multiprocessor. Throws Error when
/// there is no such library, or it cannot use the GPU.
[[nodiscard]] std::unique_ptr<GpuLoad> cuda_gpu_load(const std::string& pci_address);

}  // namespace lowgear::operations::doctor
