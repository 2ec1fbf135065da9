#include "hardware/gpu/gpu_setting.h"

#include <fmt/format.h>

namespace lowgear::gpu {
namespace {

std::string words_of(const LockSmClocks& clocks) {
  return fmt::format("{} to {}-{} MHz", LockSmClocks::kName, clocks.min_mhz, clocks.max_mhz);
}
std::string words_of(const ResetSmClocks&) { return std::string(ResetSmClocks::kName); }
std::string words_of(const LockMemoryClocks& clocks) {
  return fmt::format("{} to {}-{} MHz", LockMemoryClocks::kName, clocks.min_mhz, clocks.max_mhz);
}
std::string words_of(const ResetMemoryClocks&) { return std::string(ResetMemoryClocks::kName); }
std::string words_of(const SetPowerLimit& power) {
  return fmt::format("{} to {} W", SetPowerLimit::kName, power.limit_w);
}
std::string words_of(const SetPersistenceMode& mode) {
  return mode.enabled ? "enable persistence mode" : "disable persistence mode";
}
std::string words_of(const RequestWorkloadPowerProfiles& request) {
  return fmt::format("{}: {}", RequestWorkloadPowerProfiles::kName, to_string(request.profiles));
}
std::string words_of(const SetPowerSmoothing& smoothing) {
  std::string words = smoothing.enabled ? "enable power smoothing" : "disable power smoothing";
  if (smoothing.preset) words += fmt::format(" with preset {}", *smoothing.preset);
  return words;
}

}  // namespace

std::string_view name(const GpuSetting& setting) {
  return std::visit([](const auto& each) { return each.kName; }, setting);
}

std::string to_string(const GpuSetting& setting) {
  return std::visit([](const auto& each) { return words_of(each); }, setting);
}

}  // namespace lowgear::gpu
