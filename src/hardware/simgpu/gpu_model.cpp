#include "hardware/simgpu/gpu_model.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <initializer_list>
#include <string>

#include "base/core/error.h"
#include "base/core/units.h"

namespace lowgear::simgpu {
namespace {

// Sources, as the comments below name them:
// [trace]   Lowgear's own read-only measurement of an NVIDIA H100 80GB HBM3, driver 580.159.04: NVML read at 100 Hz
//           while it was idle, held a context, ran bf16 matmuls, copied memory and waited; see docs/estimating.md.
// [perseus] stage profiles of the SOSP'24 Perseus artifact (ml-energy/zeus, branch kronos, sosp24_data): time and
// energy
//           of GPT-3 175B on A100 SXM and of Bloom on A40 at each SM clock, and its blocking powers, 83.64 W and
//           70.38 W. Fitted: energy / time − blocking power ~ f·V(f)^2.
// [zeus29]  ml-energy/zeus issue 29: NVML calls that set clocks "typically take 10-20 ms".
// [sc24]    Yang et al., arXiv:2312.02741: on A100 and H100 the power sensor covers 25 % of the time.
// [nvml]    NVML documentation of nvmlDeviceGetPowerUsage: an average over one second on Ampere and later but GA100.
// [sheet]   NVIDIA's data sheet of the product; for GA102 the whitepaper "Ampere GA102 GPU Architecture".
// [smi]     what `nvidia-smi -q` shows in public issues: V100 SXM2 in NVIDIA/nvidia-docker 1076, RTX 3090 in
//           NVIDIA/nvidia-docker 1547, RTX A6000 in mrirecon/bart 323.
// [derived] computed from another model's numbers as the comment says; compared with no measurement.
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
/// is not sampled in part. Noise: of an idle H200 with the same driver (docs/estimating.md); the others' is [assumed].
constexpr SensorModel kHopperSensors = {.energy_period_s = 0.1,
                                        .power_period_s = 0.1,
                                        .power_sample_s = 0.025,
                                        .average_window_s = 1.0,
                                        .utilisation_period_s = 0.2,
                                        .instant_noise_w = 0.35,
                                        .average_noise_w = 0.035};

/// [trace]: 30 C at 68 W; 13 K more within 0.2 s when 700 W begin, 57 C after 25 s; 42 C while copying. Thresholds as
/// NVML reports them there.
constexpr ThermalModel kHopperThermal = {.ambient_c = 28.2,
                                         .die_k_per_w = 0.0225,
                                         .die_time_constant_s = 0.08,
                                         .package_k_per_w = 0.02,
                                         .package_time_constant_s = 8,
                                         .slowdown_software_c = 87,
                                         .slowdown_hardware_c = 89,
                                         .shutdown_c = 95,
                                         .memory_max_c = 95};

/// [trace]: 68.4 W idle at 30 C; with a context at 1980 MHz 113.9 W at 32 C, 117.4 W at 37 C and 121.3 W at 41 C;
/// 378 W while copying; 698 W of 700 W at 1378 MHz and 57 C in a bf16 matmul, which is compute load 1. The voltage
/// curve is that of [perseus]' A100, stretched to 1980 MHz, as the trace holds no locked clocks. That 30 % of the
/// memory power follows the SM clock is [assumed].
constexpr PowerModel kHopperPower = {.board_w = 45,
                                     .idle_board_w = 45,
                                     .clock_tree_w = 34.5,
                                     .leakage_w = 33,
                                     .leakage_per_k = 0.02,
                                     .compute_w = 1243,
                                     .memory_w = 180,
                                     .memory_on_sm_w = 77,
                                     .voltage_floor = 0.835,
                                     .voltage_knee_mhz = 1540};

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
    .sm_clocks = {.min_mhz = 345, .max_mhz = 1980, .step_mhz = 15},
    .memory_clocks_mhz = {2619, 1593},
    .idle_memory_clock_mhz = 2619,
    .power_limit_min_w = 200,
    .power_limit_max_w = 700,
    .power_limit_default_w = 700,
    .idle_after_s = 2,  // [assumed]
    .power = kHopperPower,
    .thermal = kHopperThermal,
    .sensors = kHopperSensors,
    .switching = kAssumedSwitching,
};

/// The H100's die with more memory: clocks, limits and sensors as [trace] has them on the H100; memory size and bus
/// from [sheet]; memory clocks from its bandwidth of 4.8 TB/s. Power and temperature are those of the H100, with 5 W
/// more for the larger memory [assumed].
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
  model.power.board_w += 5;
  model.power.idle_board_w += 5;
  return model;
}

/// Compute load 1 is the work of [perseus]' GPT-3 instructions: 235 W at 855 MHz and 427 W at 1305 MHz there, on a GPU
/// that was not held to 400 W. The voltage curve is fitted to those up to 1350 MHz, within 2.5 %. Blocking power as
/// [perseus]; how it splits, the idle power, the memory power and the temperatures are [assumed].
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
    .sm_clocks = {.min_mhz = 210, .max_mhz = 1410, .step_mhz = 15},
    .memory_clocks_mhz = {1593},
    .idle_memory_clock_mhz = 1593,
    .power_limit_min_w = 100,
    .power_limit_max_w = 400,
    .power_limit_default_w = 400,
    .idle_after_s = 2,
    .power = {.board_w = 36.6,
              .idle_board_w = 36.6,
              .clock_tree_w = 20,
              .leakage_w = 20,
              .leakage_per_k = 0.02,
              .compute_w = 413,
              .memory_w = 110,
              .memory_on_sm_w = 45,
              .voltage_floor = 0.835,
              .voltage_knee_mhz = 1095},
    .thermal = {.ambient_c = 28,
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

/// Compute load 1 is the work of [perseus]' Bloom instructions: 176 W at 855 MHz and 286 W at 1485 MHz there, and its
/// limit of 300 W from about 1550 MHz on. The voltage curve is fitted to those up to 1500 MHz, within 3.6 %. Blocking
/// power as [perseus]; the rest of power and temperature is [assumed]. NVML reports the limits and clocks
/// (NVIDIA/nvidia-docker issue 1447).
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
    .sm_clocks = {.min_mhz = 210, .max_mhz = 1740, .step_mhz = 15},
    .memory_clocks_mhz = {7251, 6501, 810, 405},
    .idle_memory_clock_mhz = 405,
    .power_limit_min_w = 100,
    .power_limit_max_w = 300,
    .power_limit_default_w = 300,
    .idle_after_s = 2,
    .power = {.board_w = 35.1,
              .idle_board_w = 15,
              .clock_tree_w = 15,
              .leakage_w = 15,
              .leakage_per_k = 0.02,
              .compute_w = 276,
              .memory_w = 70,
              .memory_on_sm_w = 30,
              .voltage_floor = 0.91,
              .voltage_knee_mhz = 1170},
    .thermal = {.ambient_c = 28,
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

/// Clocks, limits and thresholds [smi]. Power is [derived] from the A100's, which has the same kind of memory: the
/// voltage curve stretched to 1530 MHz, compute in proportion to the power limit, memory to the bandwidth (900 of 2039
/// GB/s). Without work 57 W at 1290 MHz and 32 C [smi]; how they split is [assumed], as are temperatures and sensors,
/// which are those of the A100. The driver also lists clocks between these, every 7.5 MHz.
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
  model.sm_clocks = {.min_mhz = 135, .max_mhz = 1530, .step_mhz = 15};
  model.memory_clocks_mhz = {877};
  model.idle_memory_clock_mhz = 877;
  model.power_limit_min_w = 150;
  model.power_limit_max_w = 300;
  model.power_limit_default_w = 300;
  model.power = {.board_w = 36,
                 .idle_board_w = 36,
                 .clock_tree_w = 15,
                 .leakage_w = 15,
                 .leakage_per_k = 0.02,
                 .compute_w = 310,
                 .memory_w = 48.6,
                 .memory_on_sm_w = 19.9,
                 .voltage_floor = 0.835,
                 .voltage_knee_mhz = 1188};
  model.thermal.slowdown_software_c = 83;
  model.thermal.slowdown_hardware_c = 87;
  model.thermal.shutdown_c = 90;
  model.thermal.memory_max_c = 85;
  return model;
}

/// The A40's chip, GA102, up to 2100 MHz [smi]. Power is [derived] from the A40's: its voltage as a function of the
/// clock, extended in a straight line from 1740 to 2100 MHz (5.7 % more); compute in proportion to multiprocessors,
/// clock and the square of the voltage, the clock tree without the first, leakage to the third power of the voltage,
/// memory to the bandwidth. Idle power [smi] of the A6000: 30 W. Temperatures and sensors are the A40's [assumed], but
/// for the highest operating temperature of 93 C [smi].
constexpr SimulatedGpuModel rtx_a6000() {
  SimulatedGpuModel model = kA40;
  model.key = "A6000";
  model.name = "NVIDIA RTX A6000";
  model.pci_device_id = 0x223010DE;
  model.pci_subsystem_id = 0;
  model.memory_bytes = 51539607552;  // 48 GiB [sheet]
  model.sm_clocks.max_mhz = 2100;
  model.memory_clocks_mhz = {8001, 405};  // those that [smi] shows, of more
  model.power = {.board_w = 35.1,
                 .idle_board_w = 17,
                 .clock_tree_w = 20.2,
                 .leakage_w = 17.7,
                 .leakage_per_k = 0.02,
                 .compute_w = 372,
                 .memory_w = 77.2,
                 .memory_on_sm_w = 44.6,
                 .voltage_floor = 0.861,
                 .voltage_knee_mhz = 1170};
  model.thermal.slowdown_software_c = 93;
  return model;
}

/// The same chip with 82 multiprocessors and GDDR6X, whose energy per byte is [assumed] to be that of GDDR6. CUDA runs
/// with a memory clock of 9501 MHz [smi]; the simulation takes the highest one.
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
  model.power_limit_default_w = 350;
  model.power.compute_w = 363;
  model.power.memory_w = 94.1;
  model.power.memory_on_sm_w = 54.4;
  return model;
}

constexpr auto kModels =
    std::to_array<SimulatedGpuModel>({kA40, kA100, kH100, h200(), v100(), rtx_3090(), rtx_a6000()});

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

std::span<const SimulatedGpuModel> gpu_models() { return kModels; }

const SimulatedGpuModel& find_gpu_model(std::string_view key) {
  std::string known;
  for (const SimulatedGpuModel& model : kModels) {
    if (equal_ignoring_case(model.key.view(), key) || equal_ignoring_case(model.name.view(), key)) return model;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", model.key.view());
  }
  throw InputError(fmt::format("there is no simulated GPU model {}; choose one of {}", quote(key), known));
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
  const PowerModel& power = model.power;
  constexpr double kMaxPowerW = 1e6;
  check_range(model, "a power",
              {power.board_w, power.idle_board_w, power.clock_tree_w, power.leakage_w, power.compute_w, power.memory_w,
               power.memory_on_sm_w, model.power_limit_min_w, model.power_limit_max_w, model.power_limit_default_w},
              kMaxPowerW);
  if (model.power_limit_min_w <= 0 || model.power_limit_default_w < model.power_limit_min_w ||
      model.power_limit_max_w < model.power_limit_default_w) {
    reject(model, "power limits are not in the order minimum, default, maximum");
  }
  check_range(model, "leakage per kelvin", {power.leakage_per_k}, 0.1);
  check_range(model, "voltage floor", {power.voltage_floor}, 1);
  check_range(model, "voltage knee in MHz", {power.voltage_knee_mhz}, model.sm_clocks.max_mhz);
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
