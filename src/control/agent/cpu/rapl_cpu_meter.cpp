#include "control/agent/cpu/rapl_cpu_meter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace lowgear::agent {
namespace {

std::uint64_t microjoules(double energy_j) {
  return static_cast<std::uint64_t>(std::llround(std::max(energy_j, 0.0) * 1e6));
}

}  // namespace

RaplCpuMeter::RaplCpuMeter(gpu::Rapl rapl) : rapl_(std::move(rapl)) {}

std::vector<CpuEnergy> RaplCpuMeter::read() {
  const std::vector<gpu::RaplReading> readings = rapl_.read();
  std::map<int, CpuEnergy> packages;
  for (const gpu::RaplReading& reading : readings) {
    if (!reading.dram) packages[reading.package].package_uj += microjoules(reading.energy_j);
  }
  for (const gpu::RaplReading& reading : readings) {
    const auto package = packages.find(reading.package);
    if (!reading.dram || package == packages.end()) continue;
    package->second.dram_uj = package->second.dram_uj.value_or(0) + microjoules(reading.energy_j);
  }
  std::vector<CpuEnergy> result;
  for (auto& [number, energy] : packages) {
    energy.package = number;
    result.push_back(energy);
  }
  return result;
}

}  // namespace lowgear::agent
