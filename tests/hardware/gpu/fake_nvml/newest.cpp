// What drivers of CUDA 13.1 have, too.
#include <string>

#include "hardware/gpu/fake_nvml/fake_nvml.h"

using namespace lowgear;
using namespace lowgear::gpu;

extern "C" {

/// Has no version to check.
gpu::nvml::Return nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1(gpu::nvml::Device,
                                                                  gpu::nvml::WorkloadPowerProfileUpdateV1* update) {
  const auto code = fake_nvml::scripted("nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1");
  if (code != gpu::nvml::Return::success) return code;
  fake_nvml::record("profiles update " + std::to_string(update->operation) + " to " +
                    std::to_string(update->profiles.words[0]));
  return code;
}
}
