#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/operations/doctor/gpu_load.h"
#include "app/operations/doctor/machine_facts.h"
#include "hardware/gpu/nvml_survey.h"
#include "planning/profile/latency/switch_latency.h"

namespace lowgear::operations::doctor {

/// SM clocks that may be set, both included.
struct AllowedClocks {
  int low_mhz = 0;
  int high_mhz = 0;
};

/// About how long the measurement of one GPU takes.
inline constexpr double kSwitchLatencyProbeS = 6;

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
