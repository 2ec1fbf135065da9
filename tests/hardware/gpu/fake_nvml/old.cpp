// Names that drivers had before.
#include "hardware/gpu/fake_nvml/fake_nvml.h"

using namespace lowgear;
using namespace lowgear::gpu;

extern "C" {

gpu::nvml::Return nvmlDeviceGetCurrentClocksThrottleReasons(gpu::nvml::Device, unsigned long long* reasons) {
  return fake_nvml::give("nvmlDeviceGetCurrentClocksThrottleReasons", reasons, 0x20);
}
}
