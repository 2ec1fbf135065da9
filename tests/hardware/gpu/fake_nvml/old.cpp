// Names that drivers had before.
#include "hardware/gpu/fake_nvml/fake_nvml.h"

using namespace lowgear;

extern "C" {

nvml::Return nvmlDeviceGetCurrentClocksThrottleReasons(nvml::Device, unsigned long long* reasons) {
  return fake_nvml::give("nvmlDeviceGetCurrentClocksThrottleReasons", reasons, 0x20);
}
}
