// What drivers have by now.
#include <string>

#include "hardware/gpu/fake_nvml/fake_nvml.h"

using namespace lowgear;
using namespace lowgear::gpu;
using fake_nvml::give;

extern "C" {

gpu::nvml::Return nvmlDeviceGetTotalEnergyConsumption(gpu::nvml::Device, unsigned long long* energy_mj) {
  return give("nvmlDeviceGetTotalEnergyConsumption", energy_mj, 5'000'000'000'500ULL);
}
gpu::nvml::Return nvmlDeviceGetFieldValues(gpu::nvml::Device, int count, gpu::nvml::FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    values[i].value_type = gpu::nvml::ValueType::unsigned_integer;
    values[i].result = values[i].field_id == gpu::nvml::kFieldInstantPower ? fake_nvml::scripted("field")
                                                                           : gpu::nvml::Return::not_supported;
    values[i].value.unsigned_long = ~0ULL;
    values[i].value.unsigned_integer = 99250;
  }
  return fake_nvml::scripted("nvmlDeviceGetFieldValues");
}
gpu::nvml::Return nvmlDeviceGetCurrentClocksEventReasons(gpu::nvml::Device, unsigned long long* reasons) {
  return give("nvmlDeviceGetCurrentClocksEventReasons", reasons, 0x4);
}
gpu::nvml::Return nvmlDeviceGetMigMode(gpu::nvml::Device device, unsigned* current, unsigned* pending) {
  *pending = gpu::nvml::kDisabled;
  // The second GPU is in MIG mode.
  return give("nvmlDeviceGetMigMode", current, reinterpret_cast<std::uintptr_t>(device) == 2 ? 1 : 0);
}
gpu::nvml::Return nvmlDeviceSetGpuLockedClocks(gpu::nvml::Device, unsigned min_mhz, unsigned max_mhz) {
  fake_nvml::record("SM clocks " + std::to_string(min_mhz) + " " + std::to_string(max_mhz));
  return fake_nvml::scripted("nvmlDeviceSetGpuLockedClocks");
}
gpu::nvml::Return nvmlDeviceResetGpuLockedClocks(gpu::nvml::Device) {
  fake_nvml::record("SM clocks reset");
  return fake_nvml::scripted("nvmlDeviceResetGpuLockedClocks");
}
gpu::nvml::Return nvmlDeviceSetMemoryLockedClocks(gpu::nvml::Device, unsigned min_mhz, unsigned max_mhz) {
  fake_nvml::record("memory clocks " + std::to_string(min_mhz) + " " + std::to_string(max_mhz));
  return gpu::nvml::Return::success;
}
gpu::nvml::Return nvmlDeviceResetMemoryLockedClocks(gpu::nvml::Device) {
  fake_nvml::record("memory clocks reset");
  return gpu::nvml::Return::success;
}
}
