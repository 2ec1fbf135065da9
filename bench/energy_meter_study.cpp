/// How well the energy meter tells the energy of a window: windows over loads on simulated GPUs, whose true energy the
/// simulation knows, through NVML as on a real machine. In real time: 10 s a window.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hardware/gpu/nvml_system.h"
#include "hardware/measure/energy_meter.h"
#include "hardware/simgpu/simulated_machine.h"
#include "measurement.h"

namespace lowgear::bench {
namespace {

constexpr double kReachPct = 1;
constexpr double kWindowS = 10;
constexpr int kWindows = 3;

struct Load {
  const char* name;
  std::function<void(simgpu::SimulatedGpu&)> step;  ///< called again and again while the window is open
};

std::vector<Load> loads() {
  return {
      {"idle with a context", [](simgpu::SimulatedGpu&) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }},
      {"matrix products, held by the power cap", [](simgpu::SimulatedGpu& gpu) { (void)gpu.run({.compute_s = 0.02}); }},
      {"copies of memory", [](simgpu::SimulatedGpu& gpu) { (void)gpu.run({.memory_s = 0.02}); }},
      {"70 ms busy, 60 ms idle",
       [](simgpu::SimulatedGpu& gpu) {
         (void)gpu.run({.compute_s = 0.05, .memory_s = 0.02});
         std::this_thread::sleep_for(std::chrono::milliseconds(60));
       }},
      {"3 s busy, 2 s idle",
       [](simgpu::SimulatedGpu& gpu) {
         (void)gpu.run({.compute_s = 2, .memory_s = 1});
         std::this_thread::sleep_for(std::chrono::seconds(2));
       }},
  };
}

/// Error of one window in per cent, and what the meter said of its own uncertainty.
struct Accuracy {
  double error_pct = 0;
  double stated_pct = 0;
};

Accuracy measure(measure::EnergyMeter& meter, simgpu::SimulatedGpu& gpu, const Load& load) {
  const auto window = meter.begin(load.name);
  const double before_j = gpu.true_energy_j();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kWindowS);
  while (std::chrono::steady_clock::now() < end) load.step(gpu);
  const double true_j = gpu.true_energy_j() - before_j;
  const measure::GpuMeasurement measured = meter.end(window).gpus.front();
  return {.error_pct = 100 * (measured.energy_j.value() / true_j - 1),
          .stated_pct = 100 * measured.energy_uncertainty_j.value() / true_j};
}

void run() {
  const std::filesystem::path state = std::filesystem::temp_directory_path() / fmt::format("energy-{}", getpid());
  setenv("LOWGEAR_SIMGPU", state.c_str(), 1);
  setenv("LOWGEAR_NVML", LOWGEAR_NVML_LIBRARY, 1);
  simgpu::SimulatedMachineConfig config;
  config.gpus = simgpu::gpu_models_from_text("H100");
  const std::unique_ptr<simgpu::SimulatedMachine> machine = simgpu::SimulatedMachine::create(state, config);
  const std::unique_ptr<gpu::GpuSystem> system = gpu::open_nvml();
  measure::EnergyMeter meter(*system);
  simgpu::SimulatedGpu& gpu = machine->gpu(0);
  gpu.attach_context();
  fmt::print("| load, simulated H100, windows of {:.0f} s | error, largest of {} | stated, largest |\n|---|---|---|\n",
             kWindowS, kWindows);
  Extent all;
  for (const Load& load : loads()) {
    Extent error_pct;
    Extent stated_pct;
    for (int i = 0; i < kWindows; ++i) {
      // Begins and ends fall at any phase of the counter's steps.
      std::this_thread::sleep_for(std::chrono::milliseconds(337 + 29 * i));
      const Accuracy accuracy = measure(meter, gpu, load);
      error_pct.add(std::abs(accuracy.error_pct));
      stated_pct.add(accuracy.stated_pct);
      all.add(std::abs(accuracy.error_pct));
    }
    fmt::print("| {} | {:.3f} % | ±{:.3f} % |\n", load.name, error_pct.max(), stated_pct.max());
  }
  gpu.detach_context();
  std::filesystem::remove(state);
  print_target("energy of windows of 10 s and more, against the simulation's truth, error (*simulated*)",
               fmt::format("{:.3f} % at most, {:.3f} % on average", all.max(), all.mean()),
               fmt::format("≤ {} %", kReachPct), all.max() <= kReachPct);
}

}  // namespace
}  // namespace lowgear::bench

int main() { return lowgear::bench::run_study(lowgear::bench::run); }
