#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lowgear::gpu {

/// Number of workload power profiles that a driver can number.
inline constexpr std::size_t kWorkloadPowerProfileLimit = 255;
/// Workload power profiles, a bit for the number of each (nvmlPowerProfileType_t).
using WorkloadPowerProfileSet = std::bitset<kWorkloadPowerProfileLimit>;

/// The driver's own settings below clocks and limits (NVML 12.8, GPUs since Blackwell): the supported ones, the ones
/// that any program requests, and the requested ones that the driver enforces after it has resolved conflicts.
struct WorkloadPowerProfiles {
  WorkloadPowerProfileSet supported;
  WorkloadPowerProfileSet requested;
  WorkloadPowerProfileSet enforced;

  bool operator==(const WorkloadPowerProfiles&) const = default;
};

/// `llm_training`; `profile_15` for a number that NVML 13.3 does not name.
[[nodiscard]] std::string workload_power_profile_name(std::size_t profile);
/// The number with this name; empty for an unknown name.
[[nodiscard]] std::optional<std::size_t> find_workload_power_profile(std::string_view name);
/// Of the profiles in the set, in the order of their numbers.
[[nodiscard]] std::vector<std::string> names(const WorkloadPowerProfileSet& profiles);
/// `compute, llm_training`; `none`.
[[nodiscard]] std::string to_string(const WorkloadPowerProfileSet& profiles);

/// Keeps the SM clock within [min_mhz, max_mhz].
///
/// `kName`, here and below, is what messages call the setting.
struct LockSmClocks {
  static constexpr std::string_view kName = "lock SM clocks";
  int min_mhz = 0;
  int max_mhz = 0;
};

/// SM clocks back to the driver's own choice. Does nothing when nothing is locked.
struct ResetSmClocks {
  static constexpr std::string_view kName = "reset SM clocks";
};

/// Keeps the clock of the device memory within [min_mhz, max_mhz].
struct LockMemoryClocks {
  static constexpr std::string_view kName = "lock memory clocks";
  int min_mhz = 0;
  int max_mhz = 0;
};

/// Memory clocks back to the driver's own choice. Does nothing when nothing is locked.
struct ResetMemoryClocks {
  static constexpr std::string_view kName = "reset memory clocks";
};

/// Beyond the power limit of any GPU, so that a mistaken unit is refused.
constexpr double kMaxPowerW = 100'000;

/// The power above which the driver lowers the clocks. It has no reset: the limit from before is set again.
struct SetPowerLimit {
  static constexpr std::string_view kName = "set the power limit";
  double limit_w = 0;
};

/// Whether the driver keeps the GPU initialised while no process uses it.
struct SetPersistenceMode {
  static constexpr std::string_view kName = "set persistence mode";
  bool enabled = false;
};

/// Requests exactly these workload power profiles of the driver, and may be empty. Read back which ones it enforces.
struct RequestWorkloadPowerProfiles {
  static constexpr std::string_view kName = "request workload power profiles";
  WorkloadPowerProfileSet profiles;
  bool allow_conflicts = false;  ///< leaves conflicts to the driver, to restore another program's request
};

/// Turns power smoothing on or off, after activating a preset profile of the driver if one is named.
struct SetPowerSmoothing {
  static constexpr std::string_view kName = "set power smoothing";
  bool enabled = false;
  std::optional<int> preset;
};

/// One change of one GPU, as a value that requests, checks, threads and fakes pass on. Only these places distinguish
/// the alternatives, and the compiler reports each that lacks one: the driver's call (gpu_control.cpp), the words
/// (gpu_setting.cpp), and the agent's permissions (service/gpu_writer.cpp).
using GpuSetting = std::variant<LockSmClocks, ResetSmClocks, LockMemoryClocks, ResetMemoryClocks, SetPowerLimit,
                                SetPersistenceMode, RequestWorkloadPowerProfiles, SetPowerSmoothing>;

/// Its name without values: `lock SM clocks`.
[[nodiscard]] std::string_view name(const GpuSetting& setting);

/// The change in words, with values and units: `lock SM clocks to 345-1005 MHz`, `enable persistence mode`.
[[nodiscard]] std::string to_string(const GpuSetting& setting);

}  // namespace lowgear::gpu
