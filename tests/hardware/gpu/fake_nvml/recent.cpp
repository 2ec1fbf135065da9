// What drivers have by now.
#include <string>

#include "hardware/gpu/fake_nvml/fake_nvml.h"

using namespace lowgear;
using fake_nvml::give;

extern "C" {

nvml::Return nvmlDeviceGetTotalEnergyConsumption(nvml::Device, unsigned long long* energy_mj) {
  return give("nvmlDeviceGetTotalEnergyConsumption", energy_mj, 5'000'000'000'500ULL);
}
nvml::Return nvmlDeviceGetFieldValues(nvml::Device, int count, nvml::FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    values[i].value_type = nvml::ValueType::unsigned_integer;
    values[i].result =
        values[i].field_id == nvml::kFieldInstantPower ? fake_nvml::scripted("field") : nvml::Return::not_supported;
    values[i].value.unsigned_long = ~0ULL;
    values[i].value.unsigned_integer = 99250;
  }
  return fake_nvml::scripted("nvmlDeviceGetFieldValues");
}
nvml::Return nvmlDeviceGetCurrentClocksEventReasons(nvml::Device, unsigned long long* reasons) {
  return give("nvmlDeviceGetCurrentClocksEventReasons", reasons, 0x4);
}
nvml::Return nvmlDeviceGetMigMode(nvml::Device device, unsigned* current, unsigned* pending) {
  *pending = nvml::kDisabled;
  // The second GPU is in MIG mode.
  return give("nvmlDeviceGetMigMode", current, reinterpret_cast<std::uintptr_t>(device) == 2 ? 1 : 0);
}
nvml::Return nvmlDeviceSetGpuLockedClocks(nvml::Device, unsigned min_mhz, unsigned max_mhz) {
  fake_nvml::record("SM clocks " + std::to_string(min_mhz) + " " + std::to_string(max_mhz));
  return fake_nvml::scripted("nvmlDeviceSetGpuLockedClocks");
}
nvml::Return nvmlDeviceResetGpuLockedClocks(nvml::Device) {
  fake_nvml::record("SM clocks reset");
  return fake_nvml::scripted("nvmlDeviceResetGpuLockedClocks");
}
nvml::Return nvmlDeviceSetMemoryLockedClocks(nvml::Device, unsigned min_mhz, unsigned max_mhz) {
  fake_nvml::record("memory clocks " + std::to_string(min_mhz) + " " + std::to_string(max_mhz));
  return nvml::Return::success;
}
nvml::Return nvmlDeviceResetMemoryLockedClocks(nvml::Device) {
  fake_nvml::record("memory clocks reset");
  return nvml::Return::success;
}
}
