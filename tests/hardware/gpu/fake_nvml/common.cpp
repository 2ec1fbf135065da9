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

nvml::Return copy(std::string_view symbol, const std::string& text, char* target, unsigned size) {
  if (const nvml::Return code = scripted(symbol); code != nvml::Return::success) return code;
  if (size <= text.size()) return nvml::Return::insufficient_size;
  std::memcpy(target, text.c_str(), text.size() + 1);
  return nvml::Return::success;
}

/// Handles are 1 and 2.
unsigned number(nvml::Device device) { return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(device) - 1); }

}  // namespace

nvml::Return scripted(std::string_view symbol) {
  const std::string script = std::string(" ") + environment("FAKE_NVML_FAIL");
  const std::string key = " " + std::string(symbol) + "=";
  const std::size_t place = script.find(key);
  if (place == std::string::npos) return nvml::Return::success;
  return static_cast<nvml::Return>(std::atoi(script.c_str() + place + key.size()));
}

void record(std::string_view call) { calls.append(call).append("\n"); }

}  // namespace lowgear::fake_nvml

using namespace lowgear;
using fake_nvml::give;

extern "C" {

/// How often NVML was initialised without being shut down.
int fake_nvml_open_count() { return fake_nvml::open_count; }
/// Calls that would have changed a GPU.
const char* fake_nvml_setter_calls() { return fake_nvml::calls.c_str(); }

nvml::Return nvmlInit_v2() {
  const nvml::Return code = fake_nvml::scripted("nvmlInit_v2");
  if (code == nvml::Return::success) ++fake_nvml::open_count;
  return code;
}
nvml::Return nvmlShutdown() {
  --fake_nvml::open_count;
  return nvml::Return::success;
}
const char* nvmlErrorString(nvml::Return code) { return code == nvml::Return::gpu_is_lost ? "GPU is lost" : "Failed"; }
nvml::Return nvmlSystemGetDriverVersion(char* version, unsigned size) {
  return fake_nvml::copy("nvmlSystemGetDriverVersion", "470.256.02", version, size);
}
nvml::Return nvmlDeviceGetCount_v2(unsigned* count) { return give("nvmlDeviceGetCount_v2", count, 2); }
nvml::Return nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml::Device* device) {
  const nvml::Return code = fake_nvml::scripted("nvmlDeviceGetHandleByIndex_v2:" + std::to_string(index));
  if (code != nvml::Return::success) return code;
  *device = reinterpret_cast<nvml::Device>(static_cast<std::uintptr_t>(index + 1));
  return nvml::Return::success;
}
nvml::Return nvmlDeviceGetName(nvml::Device, char* name, unsigned size) {
  const char* wanted = std::getenv("FAKE_NVML_NAME");
  return fake_nvml::copy("nvmlDeviceGetName", wanted != nullptr ? wanted : "NVIDIA A100-SXM4-80GB", name, size);
}
nvml::Return nvmlDeviceGetUUID(nvml::Device device, char* uuid, unsigned size) {
  return fake_nvml::copy("nvmlDeviceGetUUID",
                         "GPU-00000000-0000-0000-0000-00000000000" + std::to_string(fake_nvml::number(device)), uuid,
                         size);
}
nvml::Return nvmlDeviceGetPciInfo_v3(nvml::Device device, nvml::PciInfo* info) {
  nvml::PciInfo result{};
  result.bus = 0x10 + fake_nvml::number(device);
  return give("nvmlDeviceGetPciInfo_v3", info, result);
}
nvml::Return nvmlDeviceGetPowerUsage(nvml::Device, unsigned* power_mw) {
  return give("nvmlDeviceGetPowerUsage", power_mw, 71500);
}
nvml::Return nvmlDeviceGetClockInfo(nvml::Device, nvml::ClockType type, unsigned* clock_mhz) {
  return give("nvmlDeviceGetClockInfo", clock_mhz, type == nvml::ClockType::memory ? 1593 : 1410);
}
nvml::Return nvmlDeviceGetTemperature(nvml::Device, int, unsigned* temperature_c) {
  return give("nvmlDeviceGetTemperature", temperature_c, 41);
}
nvml::Return nvmlDeviceGetUtilizationRates(nvml::Device, nvml::Utilization* rates) {
  return give("nvmlDeviceGetUtilizationRates", rates, nvml::Utilization{.gpu = 90, .memory = 40});
}
nvml::Return nvmlDeviceGetSupportedMemoryClocks(nvml::Device, unsigned* count, unsigned* clocks_mhz) {
  clocks_mhz[0] = 810;
  clocks_mhz[1] = 1593;
  return give("nvmlDeviceGetSupportedMemoryClocks", count, 2);
}
nvml::Return nvmlDeviceGetSupportedGraphicsClocks(nvml::Device, unsigned memory_clock_mhz, unsigned* count,
                                                  unsigned* clocks_mhz) {
  if (memory_clock_mhz != 1593) return nvml::Return::not_found;
  clocks_mhz[0] = 210;
  clocks_mhz[1] = 1410;
  clocks_mhz[2] = 1395;
  return give("nvmlDeviceGetSupportedGraphicsClocks", count, 3);
}
nvml::Return nvmlDeviceGetPowerManagementLimit(nvml::Device, unsigned* limit_mw) {
  return give("nvmlDeviceGetPowerManagementLimit", limit_mw, 350000);
}
nvml::Return nvmlDeviceGetPowerManagementDefaultLimit(nvml::Device, unsigned* limit_mw) {
  return give("nvmlDeviceGetPowerManagementDefaultLimit", limit_mw, 400000);
}
nvml::Return nvmlDeviceGetEnforcedPowerLimit(nvml::Device, unsigned* limit_mw) {
  return give("nvmlDeviceGetEnforcedPowerLimit", limit_mw, 300000);
}
nvml::Return nvmlDeviceGetPowerManagementLimitConstraints(nvml::Device, unsigned* min_mw, unsigned* max_mw) {
  *max_mw = 400000;
  return give("nvmlDeviceGetPowerManagementLimitConstraints", min_mw, 100000);
}
nvml::Return nvmlDeviceGetPersistenceMode(nvml::Device, unsigned* mode) {
  return give("nvmlDeviceGetPersistenceMode", mode, nvml::kDisabled);
}
nvml::Return nvmlDeviceSetPowerManagementLimit(nvml::Device, unsigned limit_mw) {
  fake_nvml::record("power limit " + std::to_string(limit_mw));
  return fake_nvml::scripted("nvmlDeviceSetPowerManagementLimit");
}
nvml::Return nvmlDeviceSetPersistenceMode(nvml::Device, unsigned mode) {
  fake_nvml::record("persistence mode " + std::to_string(mode));
  return fake_nvml::scripted("nvmlDeviceSetPersistenceMode");
}
}
