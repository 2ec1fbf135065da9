#include "hardware/gpu/gpu_setting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace lowgear::gpu {

namespace {

/// nvmlPowerProfileType_t of NVML 13.3, NVML_POWER_PROFILE_MAX_P to NVML_POWER_PROFILE_MIG.
constexpr auto kNames = std::to_array<std::string_view>({"max_p", "max_q", "compute", "memory_bound", "network",
                                                         "balanced", "llm_inference", "llm_training", "rbm", "dcpcie",
                                                         "hmma_sparse", "hmma_dense", "sync_balanced", "hpc", "mig"});
constexpr std::string_view kUnnamed = "profile_";

}  // namespace

std::string workload_power_profile_name(std::size_t profile) {
  return profile < kNames.size() ? std::string(kNames.at(profile)) : fmt::format("{}{}", kUnnamed, profile);
}

std::optional<std::size_t> find_workload_power_profile(std::string_view name) {
  if (const auto* const known = std::ranges::find(kNames, name); known != kNames.end()) {
    return static_cast<std::size_t>(known - kNames.begin());
  }
  if (!name.starts_with(kUnnamed)) return std::nullopt;
  name.remove_prefix(kUnnamed.size());
  std::size_t profile = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), profile);
  const bool number = error == std::errc{} && end == name.data() + name.size();
  if (!number || profile < kNames.size() || profile >= kWorkloadPowerProfileLimit) return std::nullopt;
  return profile;
}

std::vector<std::string> names(const WorkloadPowerProfileSet& profiles) {
  std::vector<std::string> result;
  for (std::size_t profile = 0; profile < profiles.size(); ++profile) {
    if (profiles.test(profile)) result.push_back(workload_power_profile_name(profile));
  }
  return result;
}

std::string to_string(const WorkloadPowerProfileSet& profiles) {
  return profiles.none() ? "none" : fmt::to_string(fmt::join(names(profiles), ", "));
}

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
