#pragma once

#include "app/operations/doctor/machine_facts.h"

namespace lowgear::operations::doctor {

inline gpu::GpuFeatureStatus& status_of(gpu::GpuSurvey& gpu, gpu::GpuFeature feature) {
  return gpu.features[static_cast<std::size_t>(feature)];
}

/// A machine with one GPU on which everything works.
inline MachineFacts good_machine() {
  gpu::GpuSurvey gpu;
  gpu.identity.uuid = "GPU-1";
  gpu.identity.pci_address = "0000:00:06.0";
  gpu.identity.name = "NVIDIA H100 80GB HBM3";
  for (gpu::GpuFeatureStatus& status : gpu.features) status.works = true;
  gpu.persistence_mode = true;
  gpu.power_limits = {.min_w = 200, .max_w = 700, .default_w = 700, .current_w = 700, .enforced_w = 700};
  gpu.supported_sm_clocks_mhz = {1980, 1965, 345};
  MachineFacts facts;
  facts.nvml = gpu::NvmlSurvey{.library_path = "/usr/lib/libnvidia-ml.so.1",
                               .driver_version = "580.159.04",
                               .simulated = false,
                               .gpus = {gpu},
                               .problems = {}};
  facts.nvidia_pci_gpus = 1;
  facts.kernel_module_version = "580.159.04";
  facts.device_nodes = true;
  facts.rapl_zones = {"package-0", "package-0/dram"};
  facts.agent_socket = "/run/lowgear/lease.sock";
  facts.agent = AgentReach::answers;
  facts.kernel_release = "6.1.0";
  facts.pidfd = true;
  facts.sealed_memory = true;
  return facts;
}

inline MachineFacts machine_without_nvml() {
  MachineFacts facts = good_machine();
  facts.nvml.reset();
  facts.nvml_problem = "libnvidia-ml.so.1: cannot open shared object file";
  return facts;
}

}  // namespace lowgear::operations::doctor
