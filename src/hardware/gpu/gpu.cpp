#include "hardware/gpu/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/core/formats/gpu_uuid.h"

namespace lowgear::gpu {
namespace {

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

/// `0000:00:06.0` from `00000000:00:06.0`, `00:06.0` and upper case.
std::string normal_pci_address(std::string_view text) {
  std::string address = lower_case(text);
  if (std::ranges::count(address, ':') == 1) return "0000:" + address;
  if (address.starts_with("0000") && address.find(':') == 8) address.erase(0, 4);
  return address;
}

}  // namespace

std::string_view name(GpuErrorCode code) {
  switch (code) {
    case GpuErrorCode::not_supported:
      return "not_supported";
    case GpuErrorCode::no_permission:
      return "no_permission";
    case GpuErrorCode::invalid_value:
      return "invalid_value";
    case GpuErrorCode::gpu_lost:
      return "gpu_lost";
    case GpuErrorCode::timeout:
      return "timeout";
    case GpuErrorCode::driver_missing:
      return "driver_missing";
    case GpuErrorCode::driver_error:
      return "driver_error";
  }
  return "driver_error";
}

std::string_view name(GpuFeature feature) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"energy_counter", "average_power", "instant_power", "sm_clock", "memory_clock", "temperature",
       "throttle_reasons", "utilisation", "supported_clocks", "power_limits", "persistence_mode", "clock_control",
       "power_control", "workload_power_profiles", "power_smoothing"});
  static_assert(kNames.size() == kGpuFeatureCount);
  return kNames.at(static_cast<std::size_t>(feature));
}

std::string to_string(ThrottleReasons reasons) {
  static constexpr auto kNames = std::to_array<std::pair<std::uint64_t, std::string_view>>({
      {0x1, "idle"},
      {0x2, "clocks set"},
      {0x4, "power cap"},
      {0x8, "hardware slowdown"},
      {0x10, "sync boost"},
      {0x20, "thermal"},
      {0x40, "hardware thermal"},
      {0x80, "power brake"},
      {0x100, "display"},
  });
  std::string text;
  std::uint64_t rest = reasons.bits;
  for (const auto& [bit, words] : kNames) {
    if ((rest & bit) == 0) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", words);
    rest &= ~bit;
  }
  if (rest != 0) text += fmt::format("{}other (0x{:x})", text.empty() ? "" : ", ", rest);
  return text.empty() ? "none" : text;
}

std::string without_gpu_name(std::string_view message, std::string_view uuid) {
  const std::string name = fmt::format("{}: ", uuid);
  return std::string(message.starts_with(name) ? message.substr(name.size()) : message);
}

bool is_called(const GpuIdentity& gpu, std::string_view uuid_or_pci_address) {
  return gpu.uuid == normal_gpu_uuid(uuid_or_pci_address) || gpu.pci_address == normal_pci_address(uuid_or_pci_address);
}

Gpu& find_gpu(const GpuSystem& system, std::string_view uuid_or_pci_address) {
  std::string known;
  for (const std::unique_ptr<Gpu>& gpu : system.gpus()) {
    const GpuIdentity& identity = gpu->identity();
    if (is_called(identity, uuid_or_pci_address)) return *gpu;
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", identity.uuid, identity.pci_address);
  }
  throw InputError(fmt::format("there is no GPU {}; {}", quote(uuid_or_pci_address),
                               known.empty() ? "this machine has none" : "those of this machine are " + known));
}

}  // namespace lowgear::gpu
