#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::gpu {

/// How many workload power profiles a driver can number.
inline constexpr std::size_t kWorkloadPowerProfileLimit = 255;
/// Workload power profiles, a bit for the number of each (nvmlPowerProfileType_t).
using WorkloadPowerProfileSet = std::bitset<kWorkloadPowerProfileLimit>;

/// The driver's own settings below clocks and limits (NVML 12.8, GPUs since Blackwell): which it has, which are
/// requested by any program, and which it enforces of those after it has resolved conflicts.
struct WorkloadPowerProfiles {
  WorkloadPowerProfileSet supported;
  WorkloadPowerProfileSet requested;
  WorkloadPowerProfileSet enforced;

  bool operator==(const WorkloadPowerProfiles&) const = default;
};

/// `llm_training`; `profile_15` for a number that NVML 13.3 does not name.
[[nodiscard]] std::string workload_power_profile_name(std::size_t profile);
/// The number with this name; empty when there is none.
[[nodiscard]] std::optional<std::size_t> find_workload_power_profile(std::string_view name);
/// Of the profiles in the set, in the order of their numbers.
[[nodiscard]] std::vector<std::string> names(const WorkloadPowerProfileSet& profiles);
/// `compute, llm_training`; `none`.
[[nodiscard]] std::string to_string(const WorkloadPowerProfileSet& profiles);

}  // namespace lowgear::gpu
