#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/operations/doctor/agent_reach.h"
#include "hardware/gpu/gpu.h"
#include "hardware/gpu/nvml_survey.h"
#include "planning/profile/switch_latency.h"

namespace lowgear::operations::doctor {

/// How late clock changes take effect on one GPU, as it was measured or why it was not.
struct GpuSwitchLatency {
  std::string uuid;
  std::optional<profile::SwitchLatency> latency;
  std::string problem;  ///< why there is no `latency`
};

/// Facts that `lowgear doctor` collects, without changing anything. One field for each fact: diagnoses combine them
/// freely.
struct MachineFacts {
  std::optional<gpu::NvmlSurvey> nvml;
  std::string nvml_problem;                                         ///< why there is no `nvml`
  gpu::GpuErrorCode nvml_code = gpu::GpuErrorCode::driver_missing;  ///< kind of that problem
  std::string nvml_override;                                        ///< value of LOWGEAR_NVML, empty when not set
  std::string simulated_machine;                                    ///< value of LOWGEAR_SIMGPU, empty when not set
  std::string simulated_nvml;         ///< the simulation's library, empty where it is not installed
  int nvidia_pci_gpus = 0;            ///< display and 3D controllers of NVIDIA on the PCI bus
  std::string kernel_module_version;  ///< of the nvidia module, empty when it is not loaded
  bool device_nodes = false;          ///< /dev/nvidiactl is there

  bool root = false;
  bool cap_sys_admin = false;  ///< in the effective set
  std::string container;       ///< `docker`, `podman`, `kubernetes`, ...; empty outside

  /// Why the energy counters of GPUs cannot be right, by UUID: they were watched for a second, next to power readings.
  std::map<std::string, std::string> wrong_counters;
  std::vector<std::string> rapl_zones;  ///< that report energy
  std::string rapl_problem;             ///< why there are none, or why one does not

  std::string agent_socket;
  AgentReach agent = AgentReach::absent;

  std::string kernel_release;
  bool pidfd = false;                              ///< pidfd_open works (Linux 5.3)
  bool sealed_memory = false;                      ///< memfd_create with seals works
  std::optional<std::uint64_t> memory_lock_bytes;  ///< RLIMIT_MEMLOCK; empty without a limit

  /// Of every GPU, only on request: measuring changes clocks.
  std::optional<std::vector<GpuSwitchLatency>> switch_latencies;
};

/// Collects the facts of this machine. `root` stands before the paths of /sys, /proc and /dev that are read directly;
/// another one in tests.
[[nodiscard]] MachineFacts collect_machine_facts(const std::filesystem::path& root = "/");

/// The simulation's libnvidia-ml.so.1 that was built or installed with this program; empty: there is none.
[[nodiscard]] std::filesystem::path simulated_nvml_of_program();

/// Kind of container by the files below `root`; empty outside of one.
[[nodiscard]] std::string container_kind(const std::filesystem::path& root);

}  // namespace lowgear::operations::doctor
