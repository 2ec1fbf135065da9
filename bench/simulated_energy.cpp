/// Reads what simulated machines really use: `simulated_energy SECONDS PERIOD_S MACHINE...`. Prints a line for each
/// period and machine: its place in the list, CLOCK_MONOTONIC in seconds, joules of all its GPUs since it was made. The
/// energy counters of these GPUs, as those of real ones, show that up to 0.1 s late.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hardware/simgpu/simulated_machine.h"

namespace lowgear::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Longest time that a look at a machine may take, of many attempts: a process that waits for a core between the energy
/// and the clock would state another power.
constexpr std::chrono::milliseconds kLook{1};
constexpr int kAttempts = 50;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

struct Look {
  Clock::time_point time;
  double energy_j = 0;
};

Look look_at(simgpu::SimulatedMachine& machine) {
  for (int attempt = 1;; ++attempt) {
    const Clock::time_point before = Clock::now();
    double energy_j = 0;
    for (int gpu = 0; gpu < machine.gpus(); ++gpu) energy_j += machine.gpu(gpu).true_energy_j();
    const Clock::duration took = Clock::now() - before;
    if (took <= kLook || attempt == kAttempts) return {.time = before + took / 2, .energy_j = energy_j};
  }
}

void read(double length_s, double period_s, const std::vector<std::string>& paths) {
  std::vector<std::unique_ptr<simgpu::SimulatedMachine>> machines;
  for (const std::string& path : paths) machines.push_back(simgpu::SimulatedMachine::open(path));
  const Clock::time_point begin = Clock::now();
  while (seconds(Clock::now() - begin) < length_s) {
    for (std::size_t i = 0; i < machines.size(); ++i) {
      const Look look = look_at(*machines[i]);
      fmt::print("{} {:.6f} {:.6f}\n", i, seconds(look.time.time_since_epoch()), look.energy_j);
    }
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::duration<double>(period_s));
  }
}

}  // namespace
}  // namespace lowgear::bench

int main(int argc, char** argv) {
  try {
    if (argc < 4) throw std::runtime_error("usage: simulated_energy SECONDS PERIOD_S MACHINE...");
    lowgear::bench::read(std::stod(argv[1]), std::stod(argv[2]), {argv + 3, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
