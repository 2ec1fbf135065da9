#include "hardware/simgpu/gpu_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <initializer_list>
#include <string>

#include "base/core/error.h"
#include "base/core/units.h"
#include "estimating/power/gpu_file.h"

namespace lowgear::simgpu {
namespace {

// Sources, as the comments below name them (those of powers are in estimating/power/gpu_table.cpp; compute load 1 is
// the work of matrix products, memory load 1 the mean of kernels that memory limits): [trace]   Lowgear's own read-only
// measurement of an NVIDIA H100 80GB HBM3, driver 580.159.04: NVML read at 100 Hz
//           while it was idle, held a context, ran bf16 matmuls, copied memory and waited; see docs/hardware.md.
// [zeus29]  ml-energy/zeus issue 29: NVML calls that set clocks "typically take 10-20 ms".
// [sc24]    Yang et al., arXiv:2312.02741: on A100 and H100 the power sensor covers 25 % of the time.
// [nvml]    NVML documentation of nvmlDeviceGetPowerUsage: an average over one second on Ampere and later but GA100.
// [sheet]   NVIDIA's data sheet of the product; for GA102 the whitepaper "Ampere GA102 GPU Architecture".
// [smi]     what `nvidia-smi -q` shows in public issues: V100 SXM2 in NVIDIA/nvidia-docker 1076, RTX 3090 in
//           NVIDIA/nvidia-docker 1547, RTX A6000 in mrirecon/bart 323.
// [assumed] no source was found; the order of magnitude is that of the neighbouring models.

/// Clock changes: calls as in [zeus29]. Published tables of transition times (arXiv:2502.20075: they depend on the
/// target clock above all, and on the GPU) were not obtained: 10 ms and its spread are [assumed].
constexpr SwitchModel kAssumedSwitching = {.call_median_s = 0.0145,
                                           .call_sigma = 0.15,
                                           .transition_median_s = 0.010,
                                           .target_sigma = 0.4,
                                           .transition_sigma = 0.2};

/// [trace]: the energy counter, both powers and the utilisation. The instantaneous power covers the last 25 ms of each
/// 100 ms as in [sc24]; the average power of this driver follows the energy counter (within 4 W of it at 700 W), so it
/// is not sampled in part. Noise: of an idle H200 with the same driver (docs/hardware.md); the others' is [assumed].
constexpr SensorModel kHopperSensors = {.energy_period_s = 0.1,
                                        .power_period_s = 0.1,
                                        .power_sample_s = 0.025,
                                        .average_window_s = 1.0,
                                        .utilisation_period_s = 0.2,
                                        .instant_noise_w = 0.35,
                                        .average_noise_w = 0.035};

/// [trace]: 30 C at 68 W; 13 K more within 0.2 s when 700 W begin, 57 C after 25 s; 42 C while copying. Thresholds as
/// NVML reports them there.
constexpr ThermalModel kHopperThermal = {.board_w = 45,
                                         .ambient_c = 28.2,
                                         .die_k_per_w = 0.0225,
                                         .die_time_constant_s = 0.08,
                                         .package_k_per_w = 0.02,
                                         .package_time_constant_s = 8,
                                         .slowdown_software_c = 87,
                                         .slowdown_hardware_c = 89,
                                         .shutdown_c = 95,
                                         .memory_max_c = 95};

constexpr SimulatedGpuModel kH100 = {
    .key = "H100",
    .name = "NVIDIA H100 80GB HBM3",  // [trace], as all of this block
    .pci_device_id = 0x233010DE,
    .pci_subsystem_id = 0x16C110DE,
    .architecture = 9,
    .compute_capability_major = 9,
    .compute_capability_minor = 0,
    .cores = 16896,
    .multiprocessors = 132,
    .memory_bytes = 85520809984,
    .memory_bus_bits = 5120,
    .pcie_generation = 5,
    .pcie_width = 16,
    .memory_clocks_mhz = {2619, 1593},
    .idle_memory_clock_mhz = 2619,
    .power_limit_min_w = 200,
    .power_limit_max_w = 700,
    .idle_after_s = 2,  // [assumed]
    .thermal = kHopperThermal,
    .sensors = kHopperSensors,
    .switching = kAssumedSwitching,
};

/// The H100's die with more memory: clocks, limits and sensors as [trace] has them on the H100; memory size and bus
/// from [sheet]; memory clocks from its bandwidth of 4.8 TB/s. Temperatures are those of the H100 [assumed].
constexpr SimulatedGpuModel h200() {
  SimulatedGpuModel model = kH100;
  model.key = "H200";
  model.name = "NVIDIA H200";
  model.pci_device_id = 0x233510DE;
  model.pci_subsystem_id = 0;
  model.memory_bytes = 150754820096;  // 143771 MiB
  model.memory_bus_bits = 6144;
  model.memory_clocks_mhz = {3201, 1593};
  model.idle_memory_clock_mhz = 3201;
  return model;
}

/// Temperatures are [assumed].
constexpr SimulatedGpuModel kA100 = {
    .key = "A100",
    .name = "NVIDIA A100-SXM4-80GB",
    .pci_device_id = 0x20B210DE,
    .pci_subsystem_id = 0x146310DE,
    .architecture = 7,
    .compute_capability_major = 8,
    .compute_capability_minor = 0,
    .cores = 6912,  // [sheet]
    .multiprocessors = 108,
    .memory_bytes = 85899345920,
    .memory_bus_bits = 5120,
    .pcie_generation = 4,
    .pcie_width = 16,
    .memory_clocks_mhz = {1593},
    .idle_memory_clock_mhz = 1593,
    .power_limit_min_w = 100,
    .power_limit_max_w = 400,
    .idle_after_s = 2,
    .thermal = {.board_w = 36.6,
                .ambient_c = 28,
                .die_k_per_w = 0.035,
                .die_time_constant_s = 0.08,
                .package_k_per_w = 0.04,
                .package_time_constant_s = 10,
                .slowdown_software_c = 85,
                .slowdown_hardware_c = 89,
                .shutdown_c = 92,
                .memory_max_c = 95},
    // Periods [assumed] as on the H100; average power as [nvml] says of GA100, sampled as in [sc24].
    .sensors = {.energy_period_s = 0.1,
                .power_period_s = 0.1,
                .power_sample_s = 0.025,
                .average_window_s = 0,
                .utilisation_period_s = 0.2,
                .instant_noise_w = 0.35,
                .average_noise_w = 0},
    .switching = kAssumedSwitching,
};

/// Temperatures are [assumed]. NVML reports the limits and clocks (NVIDIA/nvidia-docker issue 1447).
constexpr SimulatedGpuModel kA40 = {
    .key = "A40",
    .name = "NVIDIA A40",
    .pci_device_id = 0x223510DE,
    .pci_subsystem_id = 0x145A10DE,
    .architecture = 7,
    .compute_capability_major = 8,
    .compute_capability_minor = 6,
    .cores = 10752,  // [sheet]
    .multiprocessors = 84,
    .memory_bytes = 48305799168,  // 46068 MiB: ECC takes its share of 48 GB
    .memory_bus_bits = 384,
    .pcie_generation = 4,
    .pcie_width = 16,
    .memory_clocks_mhz = {7251, 6501, 810, 405},
    .idle_memory_clock_mhz = 405,
    .power_limit_min_w = 100,
    .power_limit_max_w = 300,
    .idle_after_s = 2,
    .thermal = {.board_w = 20,
                .ambient_c = 28,
                .die_k_per_w = 0.05,
                .die_time_constant_s = 0.1,
                .package_k_per_w = 0.07,
                .package_time_constant_s = 20,
                .slowdown_software_c = 88,
                .slowdown_hardware_c = 95,
                .shutdown_c = 98,
                .memory_max_c = 0},
    .sensors = kHopperSensors,  // [assumed]; the average as [nvml] says of GA102
    .switching = kAssumedSwitching,
};

/// Clocks, limits and thresholds [smi]. Temperatures and sensors are those of the A100 [assumed]. The driver also lists
/// clocks between these, every 7.5 MHz.
constexpr SimulatedGpuModel v100() {
  SimulatedGpuModel model = kA100;
  model.key = "V100";
  model.name = "Tesla V100-SXM2-16GB";
  model.pci_device_id = 0x1DB110DE;
  model.pci_subsystem_id = 0;
  model.architecture = 5;
  model.compute_capability_major = 7;
  model.compute_capability_minor = 0;
  model.cores = 5120;  // [sheet]
  model.multiprocessors = 80;
  model.memory_bytes = 17179869184;  // 16 GiB [sheet]
  model.memory_bus_bits = 4096;
  model.pcie_generation = 3;
  model.memory_clocks_mhz = {877};
  model.idle_memory_clock_mhz = 877;
  model.power_limit_min_w = 150;
  model.power_limit_max_w = 300;
  model.thermal.slowdown_software_c = 83;
  model.thermal.slowdown_hardware_c = 87;
  model.thermal.shutdown_c = 90;
  model.thermal.memory_max_c = 85;
  return model;
}

/// The A40's chip, GA102, up to 2100 MHz [smi]. Temperatures and sensors are the A40's [assumed], but for the highest
/// operating temperature of 93 C [smi].
constexpr SimulatedGpuModel rtx_a6000() {
  SimulatedGpuModel model = kA40;
  model.key = "A6000";
  model.name = "NVIDIA RTX A6000";
  model.pci_device_id = 0x223010DE;
  model.pci_subsystem_id = 0;
  model.memory_bytes = 51539607552;       // 48 GiB [sheet]
  model.memory_clocks_mhz = {8001, 405};  // those that [smi] shows, of more
  model.thermal.slowdown_software_c = 93;
  return model;
}

/// The same chip with 82 multiprocessors and GDDR6X. CUDA runs with a memory clock of 9501 MHz [smi]; the simulation
/// takes the highest one.
constexpr SimulatedGpuModel rtx_3090() {
  SimulatedGpuModel model = rtx_a6000();
  model.key = "RTX3090";
  model.name = "NVIDIA GeForce RTX 3090";
  model.pci_device_id = 0x220410DE;
  model.cores = 10496;  // [sheet]
  model.multiprocessors = 82;
  model.memory_bytes = 25769803776;  // 24 GiB [sheet]
  model.memory_clocks_mhz = {9751, 9501, 405};
  model.power_limit_max_w = 350;
  return model;
}

/// A model without power and clocks, which are those of a row of the table of powers.
struct Listed {
  SimulatedGpuModel model;
  std::string_view row;
};
constexpr auto kListed = std::to_array<Listed>({{kA40, "a40"},
                                                {kA100, "a100-80gb-sxm"},
                                                {kH100, "h100-sxm"},
                                                {h200(), "h200-sxm"},
                                                {v100(), "v100-16gb-sxm"},
                                                {rtx_3090(), "rtx-3090"},
                                                {rtx_a6000(), "rtx-a6000"}});

std::array<SimulatedGpuModel, kListed.size()> make_models() {
  std::array<SimulatedGpuModel, kListed.size()> models;
  std::ranges::transform(kListed, models.begin(), [](const Listed& listed) {
    const power::GpuRow& row = power::gpu_row(listed.row);
    SimulatedGpuModel model = listed.model;
    model.sm_clocks = {row.clocks.min_mhz, row.clocks.max_mhz, row.clocks.step_mhz};
    model.power = row.power;
    return model;
  });
  return models;
}

bool equal_ignoring_case(std::string_view left, std::string_view right) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), same);
}

[[noreturn]] void reject(const SimulatedGpuModel& model, std::string_view what) {
  throw InputError(fmt::format("GPU model {}: {}", quote(model.key.view()), what));
}

void check_range(const SimulatedGpuModel& model, std::string_view name, std::initializer_list<double> values,
                 double high) {
  for (const double value : values) {
    if (!std::isfinite(value) || value < 0 || value > high) {
      reject(model, fmt::format("{} of {} is outside [0, {}]", name, value, high));
    }
  }
}

void check_clocks(const SimulatedGpuModel& model) {
  const ClockRange& clocks = model.sm_clocks;
  if (clocks.min_mhz <= 0 || clocks.max_mhz < clocks.min_mhz || clocks.max_mhz > kMaxClockMhz || clocks.step_mhz <= 0) {
    reject(model,
           fmt::format("SM clocks {} to {} MHz by {} make no range", clocks.min_mhz, clocks.max_mhz, clocks.step_mhz));
  }
  if (!clocks.contains(clocks.max_mhz))
    reject(model, "the highest SM clock is not a whole number of steps from the lowest");
  const std::span<const int> memory = model.supported_memory_clocks_mhz();
  if (memory.empty() || memory.front() > kMaxClockMhz || memory.back() <= 0 ||
      !std::is_sorted(memory.rbegin(), memory.rend())) {
    reject(model, "memory clocks are not there, not positive or not highest first");
  }
  if (std::find(memory.begin(), memory.end(), model.idle_memory_clock_mhz) == memory.end()) {
    reject(model,
           fmt::format("the idle memory clock of {} MHz is none of its memory clocks", model.idle_memory_clock_mhz));
  }
}

void check_sensors(const SimulatedGpuModel& model) {
  const SensorModel& sensors = model.sensors;
  constexpr double kGridS = 0.005;
  constexpr double kMaxPeriodS = 60;
  const auto whole = [](double value_s) { return std::fabs(value_s / kGridS - std::round(value_s / kGridS)) < 1e-6; };
  for (const double period_s :
       {sensors.energy_period_s, sensors.power_period_s, sensors.power_sample_s, sensors.utilisation_period_s}) {
    if (!(period_s >= kGridS && period_s <= kMaxPeriodS) || !whole(period_s)) {
      reject(model,
             fmt::format("a sensor period of {} s is not a whole multiple of 5 ms up to {} s", period_s, kMaxPeriodS));
    }
  }
  constexpr double kMaxNoiseW = 100;
  check_range(model, "the noise of a power sensor", {sensors.instant_noise_w, sensors.average_noise_w}, kMaxNoiseW);
  if (sensors.power_sample_s > sensors.power_period_s) reject(model, "the power sample is longer than its period");
  const double points = sensors.average_window_s / sensors.power_period_s;
  constexpr double kMaxPoints = 63;  // GpuPhysicsState::kMaxWindow, less the newest
  if (!(points >= 0 && points <= kMaxPoints) || std::fabs(points - std::round(points)) > 1e-6) {
    reject(model, fmt::format("the window of the average power is not 0 to {} power periods", kMaxPoints));
  }
}

}  // namespace

std::span<const SimulatedGpuModel> gpu_models() {
  static const std::array<SimulatedGpuModel, kListed.size()> models = make_models();
  return models;
}

const SimulatedGpuModel& find_gpu_model(std::string_view key) {
  std::string known;
  for (const SimulatedGpuModel& model : gpu_models()) {
    if (equal_ignoring_case(model.key.view(), key) || equal_ignoring_case(model.name.view(), key)) return model;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", model.key.view());
  }
  throw InputError(fmt::format("there is no simulated GPU model {}; choose one of {}", quote(key), known));
}

void set_power(std::span<SimulatedGpuModel> models, const power::GpuFile& file) {
  bool found = false;
  for (SimulatedGpuModel& model : models) {
    if (!equal_ignoring_case(model.name.view(), file.gpu) && !equal_ignoring_case(model.key.view(), file.gpu)) continue;
    constexpr double kHzPerMhz = 1e6;
    constexpr double kTransfersPerClock = 2;
    constexpr double kBitsPerByte = 8;
    const double memory_bytes_per_s =
        kTransfersPerClock * model.memory_clocks_mhz.front() * kHzPerMhz * model.memory_bus_bits / kBitsPerByte;
    power::replace(model.power, file, model.sm_clocks.max_mhz, memory_bytes_per_s);
    found = true;
  }
  if (!found) {
    throw InputError(fmt::format("the GPU file was measured on {}, and no simulated GPU is one", quote(file.gpu)));
  }
}

SimulatedGpuModel with_power_features(SimulatedGpuModel model) {
  constexpr PowerProfileMask kMaxP = 1U << 0U;
  constexpr PowerProfileMask kMaxQ = 1U << 1U;
  constexpr PowerProfileMask kCompute = 1U << 2U;
  constexpr PowerProfileMask kMemoryBound = 1U << 3U;
  constexpr PowerProfileMask kLlmInference = 1U << 6U;
  constexpr PowerProfileMask kLlmTraining = 1U << 7U;
  PowerFeatureModel& features = model.power_features;
  features.profiles = kMaxP | kMaxQ | kCompute | kMemoryBound | kLlmInference | kLlmTraining;
  features.conflicts[0] = kMaxQ;
  features.conflicts[1] = kMaxP;
  features.conflicts[2] = kMemoryBound;
  features.conflicts[3] = kCompute;
  features.conflicts[6] = kLlmTraining;
  features.conflicts[7] = kLlmInference;
  features.smoothing_presets = 3;
  return model;
}

void check(const SimulatedGpuModel& model) {
  if (model.key.empty() || model.name.empty()) reject(model, "it has no key or no name");
  check_clocks(model);
  const power::GpuPower& power = model.power;
  constexpr double kMaxPowerW = 1e6;
  check_range(model, "a power",
              {power.idle_w, power.static_w, power.static_per_k_w, power.compute_w, power.memory_w, power.memory_sm_w,
               model.power_limit_min_w, model.power_limit_max_w, power.limit_w, model.thermal.board_w},
              kMaxPowerW);
  check_range(model, "the power of the clock tree", {power.clock_tree_w}, power.static_w);
  if (model.power_limit_min_w <= 0 || power.limit_w < model.power_limit_min_w ||
      model.power_limit_max_w < power.limit_w) {
    reject(model, "power limits are not in the order minimum, default, maximum");
  }
  const ThermalModel& thermal = model.thermal;
  check_range(model, "a thermal resistance in K/W", {thermal.die_k_per_w, thermal.package_k_per_w}, 10);
  check_range(model, "ambient temperature in C", {thermal.ambient_c}, 100);
  check_range(model, "a time constant in s", {thermal.die_time_constant_s, thermal.package_time_constant_s}, 1e5);
  if (thermal.die_time_constant_s <= 0 || thermal.package_time_constant_s <= 0) {
    reject(model, "a thermal time constant is 0");
  }
  check_sensors(model);
  const PowerFeatureModel& features = model.power_features;
  if (features.profiles >> kSimulatedPowerProfiles != 0) reject(model, "it has a workload power profile above 14");
  constexpr int kMaxPresets = 5;  // NVML_POWER_SMOOTHING_MAX_NUM_PROFILES
  if (features.smoothing_presets < 0 || features.smoothing_presets > kMaxPresets) {
    reject(model, "its number of power smoothing presets is not 0 to 5");
  }
  const SwitchModel& switching = model.switching;
  check_range(model, "a switch latency in s", {switching.call_median_s, switching.transition_median_s}, 10);
  check_range(model, "a spread of switch latencies",
              {switching.call_sigma, switching.target_sigma, switching.transition_sigma}, 3);
  check_range(model, "the time until idle in s", {model.idle_after_s}, 1e6);
}

}  // namespace lowgear::simgpu
