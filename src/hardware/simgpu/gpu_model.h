#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "estimating/power/gpu_power.h"

namespace lowgear::power {
struct GpuFile;
}

namespace lowgear::simgpu {

/// Text of a fixed size, for values that are shared between processes byte by byte. Longer text is cut.
template <std::size_t kCapacity>
class FixedText {
 public:
  constexpr FixedText() = default;
  constexpr FixedText(std::string_view text) {  // NOLINT(google-explicit-constructor): taken as std::string takes it
    std::copy_n(text.begin(), std::min(text.size(), kCapacity - 1), bytes_.begin());
  }
  constexpr FixedText(const char* text) : FixedText(std::string_view(text)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] constexpr std::string_view view() const {
    return {bytes_.data(), static_cast<std::size_t>(std::find(bytes_.begin(), bytes_.end(), '\0') - bytes_.begin())};
  }
  [[nodiscard]] constexpr bool empty() const { return bytes_[0] == '\0'; }
  constexpr bool operator==(std::string_view text) const { return view() == text; }

 private:
  std::array<char, kCapacity> bytes_{};
};

/// SM clocks that a GPU can be locked to: from `min_mhz` to `max_mhz` in steps of `step_mhz`.
struct ClockRange {
  int min_mhz = 0;
  int max_mhz = 0;
  int step_mhz = 1;

  [[nodiscard]] constexpr int count() const { return (max_mhz - min_mhz) / step_mhz + 1; }
  [[nodiscard]] constexpr bool contains(int clock_mhz) const {
    return clock_mhz >= min_mhz && clock_mhz <= max_mhz && (clock_mhz - min_mhz) % step_mhz == 0;
  }
  /// The highest clock not above `clock_mhz`; the lowest of all when there is none.
  [[nodiscard]] constexpr int at_or_below(int clock_mhz) const {
    const int clamped_mhz = std::clamp(clock_mhz, min_mhz, max_mhz);
    return clamped_mhz - (clamped_mhz - min_mhz) % step_mhz;
  }
  /// The lowest clock not below `clock_mhz`; the highest of all when there is none.
  [[nodiscard]] constexpr int at_or_above(int clock_mhz) const {
    const int below_mhz = at_or_below(clock_mhz);
    return below_mhz < clock_mhz && below_mhz < max_mhz ? below_mhz + step_mhz : below_mhz;
  }
};

/// Two thermal resistances in series with their time constants: the die over its surroundings (driven by the power of
/// the die) and the package with heat sink over the air (driven by all power).
struct ThermalModel {
  double board_w = 0;  ///< static power outside of the die: memory refresh, links and regulators
  double ambient_c = 0;
  double die_k_per_w = 0;
  double die_time_constant_s = 0;
  double package_k_per_w = 0;
  double package_time_constant_s = 0;
  int slowdown_software_c = 0;  ///< the driver lowers clocks from here on
  int slowdown_hardware_c = 0;  ///< the hardware halves the clock from here on
  int shutdown_c = 0;           ///< reported only: the simulation does not shut down
  int memory_max_c = 0;         ///< reported only
};

/// Behaviour of the power sensors. Periods are whole multiples of 5 ms.
struct SensorModel {
  double energy_period_s = 0;       ///< the energy counter advances in steps of this period
  double power_period_s = 0;        ///< both power readings are refreshed at this period
  double power_sample_s = 0;        ///< the instantaneous power is the mean over this last part of each period
  double average_window_s = 0;      ///< window of the average power; 0: the average power is the instantaneous one
  double utilisation_period_s = 0;  ///< utilisation is the share of the last such period
  double instant_noise_w = 0;       ///< standard deviation of a reading of the instantaneous power
  double average_noise_w = 0;       ///< and of the average power, where that is not the instantaneous one
};

/// How long a change of locked clocks takes, log-normal: the call blocks its caller, then the clock moves at once
/// after a transition whose median differs between targets and GPUs.
struct SwitchModel {
  double call_median_s = 0;
  double call_sigma = 0;  ///< of the logarithm
  double transition_median_s = 0;
  double target_sigma = 0;      ///< of the logarithm of the median of each target clock
  double transition_sigma = 0;  ///< of the logarithm, from change to change
};

/// Workload power profiles that the simulation can have, a bit for the number of each (nvmlPowerProfileType_t).
using PowerProfileMask = std::uint32_t;
inline constexpr int kSimulatedPowerProfiles = 15;

/// Power settings of the vendor below clocks and limits, which GPUs have since Blackwell. The simulation keeps and
/// reports them; they change neither time nor power, as their effect on a real GPU has not been measured.
struct PowerFeatureModel {
  PowerProfileMask profiles = 0;                                      ///< supported; 0: none, as before Blackwell
  std::array<PowerProfileMask, kSimulatedPowerProfiles> conflicts{};  ///< of each profile; the lower number wins
  int smoothing_presets = 0;                                          ///< 0: no power smoothing
};

/// A model of GPU. Its power is that of the estimator's table (estimating/power); gpu_model.cpp states the sources of
/// the other numbers. Copied into the shared state byte by byte, so that a test may vary any number.
struct SimulatedGpuModel {
  FixedText<16> key;                   ///< as LOWGEAR_SIMGPU_GPUS and `lowgear simgpu` name it: `H100`
  FixedText<64> name;                  ///< as NVML names it: `NVIDIA H100 80GB HBM3`
  std::uint32_t pci_device_id = 0;     ///< device and vendor, as nvmlPciInfo_t: 0x233010DE
  std::uint32_t pci_subsystem_id = 0;  ///< 0 where not known
  std::uint32_t architecture = 0;      ///< nvmlDeviceArchitecture_t: 5 Volta, 7 Ampere, 9 Hopper
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
  int cores = 0;
  int multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
  int memory_bus_bits = 0;
  int pcie_generation = 0;
  int pcie_width = 0;

  ClockRange sm_clocks = {};
  std::array<int, 4> memory_clocks_mhz{};  ///< highest first, the unused ones 0
  int idle_memory_clock_mhz = 0;           ///< without a context
  double power_limit_min_w = 0;
  double power_limit_max_w = 0;
  double idle_after_s = 0;  ///< the clock falls to its lowest this long after the last context has gone

  power::GpuPower power = {};
  ThermalModel thermal;
  SensorModel sensors;
  SwitchModel switching;
  PowerFeatureModel power_features = {};

  /// Highest first.
  [[nodiscard]] constexpr std::span<const int> supported_memory_clocks_mhz() const {
    return {memory_clocks_mhz.begin(), std::find(memory_clocks_mhz.begin(), memory_clocks_mhz.end(), 0)};
  }
};
static_assert(std::is_trivially_copyable_v<SimulatedGpuModel>);

/// A40, A100, H100, H200, V100, RTX3090, A6000.
[[nodiscard]] std::span<const SimulatedGpuModel> gpu_models();
/// The model with this key or this name of the driver's (`NVIDIA H100 80GB HBM3`), in any case. Throws InputError
/// naming the known ones.
[[nodiscard]] const SimulatedGpuModel& find_gpu_model(std::string_view key);
/// The model with power features. Its profiles, presets and conflicts are invented.
[[nodiscard]] SimulatedGpuModel with_power_features(SimulatedGpuModel model);
/// Gives those of the models whose name the file has the power of the measured GPU. Throws InputError if none has it.
void set_power(std::span<SimulatedGpuModel> models, const power::GpuFile& file);
/// Throws InputError saying what is wrong when a value is not finite, negative, or contradicts another.
void check(const SimulatedGpuModel& model);

}  // namespace lowgear::simgpu
