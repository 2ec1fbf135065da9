#pragma once

/// A stand-in for NVML, for tests of what loads it: two GPUs with fixed readings. The environment variable
/// FAKE_NVML_FAIL makes calls fail: `nvmlDeviceGetPowerUsage=15 nvmlInit_v2=18`, and FAKE_NVML_NAME names the GPUs,
/// which have one UUID or PCI address where FAKE_NVML_SAME contains `uuid` or `pci`.
/// Libraries made of it lack symbols as drivers do.

#include <string_view>

#include "hardware/gpu/nvml_abi.h"

namespace lowgear::fake_nvml {

/// What the environment wants this call to return.
[[nodiscard]] gpu::nvml::Return scripted(std::string_view symbol);
/// Remembers a call that changes something.
void record(std::string_view call);

/// Fails as scripted; otherwise puts `value` into `target`.
template <typename Target, typename Value>
gpu::nvml::Return give(std::string_view symbol, Target* target, Value value) {
  if (const gpu::nvml::Return code = scripted(symbol); code != gpu::nvml::Return::success) return code;
  *target = static_cast<Target>(value);
  return gpu::nvml::Return::success;
}

}  // namespace lowgear::fake_nvml
