#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/operations/doctor/machine_facts.h"
#include "hardware/gpu/nvml_survey.h"
#include "planning/profile/switch_latency.h"

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

/// SM clocks that may be set, both included.
struct AllowedClocks {
  int low_mhz = 0;
  int high_mhz = 0;
};

/// Highest, middle and low clocks between which latencies are measured; fewer than two: this GPU has too few.
[[nodiscard]] std::vector<int> probe_clocks_mhz(std::vector<int> supported_mhz, AllowedClocks allowed);

/// Measures the switch latency with the method of `lowgear profile`: the agent at `agent_socket` changes the clocks of
/// a GPU while `load` runs on it. The agent restores the clocks when this returns, or when this process dies. Throws
/// Error when the agent refuses, is in a dry run, or does not hold the clocks, and when the times vary too much.
[[nodiscard]] profile::SwitchLatency measure_switch_latency(const gpu::GpuSurvey& gpu,
                                                            const std::filesystem::path& agent_socket, GpuLoad& load);

/// The same for all GPUs of a machine, with a load that suits them. GPUs that are busy are left alone.
[[nodiscard]] std::vector<GpuSwitchLatency> measure_switch_latencies(const gpu::NvmlSurvey& nvml,
                                                                     const std::filesystem::path& agent_socket);

}  // namespace lowgear::operations::doctor
