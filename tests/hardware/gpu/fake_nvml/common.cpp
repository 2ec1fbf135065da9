// What every driver has.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "hardware/gpu/fake_nvml/fake_nvml.h"

namespace lowgear::fake_nvml {
namespace {

int open_count = 0;
std::string calls;  // of setters, one per line

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

gpu::nvml::Return copy(std::string_view symbol, const std::string& text, char* target, unsigned size) {
  if (const gpu::nvml::Return code = scripted(symbol); code != gpu::nvml::Return::success) return code;
  if (size <= text.size()) return gpu::nvml::Return::insufficient_size;
  std::memcpy(target, text.c_str(), text.size() + 1);
  return gpu::nvml::Return::success;
}

/// Handles are 1 and 2.
unsigned number(gpu::nvml::Device device) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(device) - 1);
}

/// The same; 0 where FAKE_NVML_SAME says that all GPUs have this in common.
unsigned number_for(const char* what, gpu::nvml::Device device) {
  return std::strstr(environment("FAKE_NVML_SAME"), what) != nullptr ? 0 : number(device);
}

}  // namespace

gpu::nvml::Return scripted(std::string_view symbol) {
  const std::string script = std::string(" ") + environment("FAKE_NVML_FAIL");
  const std::string key = " " + std::string(symbol) + "=";
  const std::size_t place = script.find(key);
  if (place == std::string::npos) return gpu::nvml::Return::success;
  return static_cast<gpu::nvml::Return>(std::atoi(script.c_str() + place + key.size()));
}

void record(std::string_view call) { calls.append(call).append("\n"); }

}  // namespace lowgear::fake_nvml

using namespace lowgear;
using namespace lowgear::gpu;
using fake_nvml::give;

extern "C" {

/// How often NVML was initialised without being shut down.
int fake_nvml_open_count() { return fake_nvml::open_count; }
/// Calls that would have changed a GPU.
const char* fake_nvml_setter_calls() { return fake_nvml::calls.c_str(); }

gpu::nvml::Return nvmlInit_v2() {
  const gpu::nvml::Return code = fake_nvml::scripted("nvmlInit_v2");
  if (code == gpu::nvml::Return::success) ++fake_nvml::open_count;
  return code;
}
gpu::nvml::Return nvmlShutdown() {
  --fake_nvml::open_count;
  return gpu::nvml::Return::success;
}
const char* nvmlErrorString(gpu::nvml::Return code) {
  return code == gpu::nvml::Return::gpu_is_lost ? "GPU is lost" : "Failed";
}
gpu::nvml::Return nvmlSystemGetDriverVersion(char* version, unsigned size) {
  return fake_nvml::copy("nvmlSystemGetDriverVersion", "470.256.02", version, size);
}
gpu::nvml::Return nvmlDeviceGetCount_v2(unsigned* count) { return give("nvmlDeviceGetCount_v2", count, 2); }
gpu::nvml::Return nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu::nvml::Device* device) {
  const gpu::nvml::Return code = fake_nvml::scripted("nvmlDeviceGetHandleByIndex_v2:" + std::to_string(index));
  if (code != gpu::nvml::Return::success) return code;
  *device = reinterpret_cast<gpu::nvml::Device>(static_cast<std::uintptr_t>(index + 1));
  return gpu::nvml::Return::success;
}
gpu::nvml::Return nvmlDeviceGetName(gpu::nvml::Device, char* name, unsigned size) {
  const char* wanted = std::getenv("FAKE_NVML_NAME");
  return fake_nvml::copy("nvmlDeviceGetName", wanted != nullptr ? wanted : "NVIDIA A100-SXM4-80GB", name, size);
}
gpu::nvml::Return nvmlDeviceGetUUID(gpu::nvml::Device device, char* uuid, unsigned size) {
  return fake_nvml::copy(
      "nvmlDeviceGetUUID",
      "GPU-00000000-0000-0000-0000-00000000000" + std::to_string(fake_nvml::number_for("uuid", device)), uuid, size);
}
gpu::nvml::Return nvmlDeviceGetPciInfo_v3(gpu::nvml::Device device, gpu::nvml::PciInfo* info) {
  gpu::nvml::PciInfo result{};
  result.bus = 0x10 + fake_nvml::number_for("pci", device);
  return give("nvmlDeviceGetPciInfo_v3", info, result);
}
gpu::nvml::Return nvmlDeviceGetPowerUsage(gpu::nvml::Device, unsigned* power_mw) {
  return give("nvmlDeviceGetPowerUsage", power_mw, 71500);
}
gpu::nvml::Return nvmlDeviceGetClockInfo(gpu::nvml::Device, gpu::nvml::ClockType type, unsigned* clock_mhz) {
  return give("nvmlDeviceGetClockInfo", clock_mhz, type == gpu::nvml::ClockType::memory ? 1593 : 1410);
}
gpu::nvml::Return nvmlDeviceGetTemperature(gpu::nvml::Device, int, unsigned* temperature_c) {
  return give("nvmlDeviceGetTemperature", temperature_c, 41);
}
gpu::nvml::Return nvmlDeviceGetUtilizationRates(gpu::nvml::Device, gpu::nvml::Utilization* rates) {
  return give("nvmlDeviceGetUtilizationRates", rates, gpu::nvml::Utilization{.gpu = 90, .memory = 40});
}
gpu::nvml::Return nvmlDeviceGetSupportedMemoryClocks(gpu::nvml::Device, unsigned* count, unsigned* clocks_mhz) {
  clocks_mhz[0] = 810;
  clocks_mhz[1] = 1593;
  return give("nvmlDeviceGetSupportedMemoryClocks", count, 2);
}
gpu::nvml::Return nvmlDeviceGetSupportedGraphicsClocks(gpu::nvml::Device, unsigned memory_clock_mhz, unsigned* count,
                                                       unsigned* clocks_mhz) {
  if (memory_clock_mhz != 1593) return gpu::nvml::Return::not_found;
  clocks_mhz[0] = 210;
  clocks_mhz[1] = 1410;
  clocks_mhz[2] = 1395;
  return give("nvmlDeviceGetSupportedGraphicsClocks", count, 3);
}
gpu::nvml::Return nvmlDeviceGetPowerManagementLimit(gpu::nvml::Device, unsigned* limit_mw) {
  return give("nvmlDeviceGetPowerManagementLimit", limit_mw, 350000);
}
gpu::nvml::Return nvmlDeviceGetPowerManagementDefaultLimit(gpu::nvml::Device, unsigned* limit_mw) {
  return give("nvmlDeviceGetPowerManagementDefaultLimit", limit_mw, 400000);
}
gpu::nvml::Return nvmlDeviceGetEnforcedPowerLimit(gpu::nvml::Device, unsigned* limit_mw) {
  return give("nvmlDeviceGetEnforcedPowerLimit", limit_mw, 300000);
}
gpu::nvml::Return nvmlDeviceGetPowerManagementLimitConstraints(gpu::nvml::Device, unsigned* min_mw, unsigned* max_mw) {
  *max_mw = 400000;
  return give("nvmlDeviceGetPowerManagementLimitConstraints", min_mw, 100000);
}
gpu::nvml::Return nvmlDeviceGetPersistenceMode(gpu::nvml::Device, unsigned* mode) {
  return give("nvmlDeviceGetPersistenceMode", mode, gpu::nvml::kDisabled);
}
gpu::nvml::Return nvmlDeviceSetPowerManagementLimit(gpu::nvml::Device, unsigned limit_mw) {
  fake_nvml::record("power limit " + std::to_string(limit_mw));
  return fake_nvml::scripted("nvmlDeviceSetPowerManagementLimit");
}
gpu::nvml::Return nvmlDeviceSetPersistenceMode(gpu::nvml::Device, unsigned mode) {
  fake_nvml::record("persistence mode " + std::to_string(mode));
  return fake_nvml::scripted("nvmlDeviceSetPersistenceMode");
}
}
