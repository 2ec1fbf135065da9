#include "agent/cpu/rapl_cpu_meter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace lowgear::agent {
namespace {

/// What the dies of a package, or of its memory, have counted together.
struct ZoneSum {
  bool is_there = false;
  double energy_j = 0;
  long set_aside = 0;
  std::string problem;

  void add(const gpu::RaplReading& reading) {
    is_there = true;
    energy_j += reading.energy_j;
    set_aside += reading.set_aside;
    if (problem.empty()) problem = reading.problem;
  }
  [[nodiscard]] std::optional<std::uint64_t> energy_uj() const {
    if (!is_there || !problem.empty()) return std::nullopt;
    return static_cast<std::uint64_t>(std::llround(std::max(energy_j, 0.0) * 1e6));
  }
};

}  // namespace

RaplCpuMeter::RaplCpuMeter(gpu::Rapl rapl) : rapl_(std::move(rapl)) {}

std::vector<CpuEnergy> RaplCpuMeter::read() {
  // By package, then its memory; of all dies.
  std::map<int, std::array<ZoneSum, 2>> packages;
  for (const gpu::RaplReading& reading : rapl_.read()) {
    packages[reading.package].at(reading.dram ? 1 : 0).add(reading);
  }
  std::vector<CpuEnergy> result;
  for (const auto& [number, sums] : packages) {
    const auto& [package, dram] = sums;
    if (!package.is_there) continue;
    result.push_back({.package = number,
                      .package_uj = package.energy_uj(),
                      .dram_uj = dram.energy_uj(),
                      .package_set_aside = package.set_aside,
                      .dram_set_aside = dram.set_aside,
                      .problem = package.problem.empty() ? dram.problem : package.problem});
  }
  return result;
}

}  // namespace lowgear::agent
