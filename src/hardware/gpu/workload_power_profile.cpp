#include "hardware/gpu/workload_power_profile.h"

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

}  // namespace lowgear::gpu
