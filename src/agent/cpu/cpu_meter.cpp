#include "agent/cpu/cpu_meter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace lowgear::agent {

namespace {

constexpr std::int64_t kShortestNs = 100'000'000;
constexpr std::int64_t kLongestNs = 1'000'000'000;

/// Empty where the counter does not tell: a CPU that is on draws power.
std::optional<double> watts(std::optional<std::uint64_t> from_uj, std::optional<std::uint64_t> to_uj,
                            std::int64_t duration_ns) {
  if (!from_uj || !to_uj || *to_uj <= *from_uj) return std::nullopt;
  return static_cast<double>(*to_uj - *from_uj) * 1e3 / static_cast<double>(duration_ns);
}

}  // namespace

CpuPower::CpuPower(CpuMeter* meter, std::function<std::int64_t()> now_ns) : meter_(meter), now_ns_(std::move(now_ns)) {}

std::vector<CpuEnergy> CpuPower::energy() { return meter_ == nullptr ? std::vector<CpuEnergy>{} : meter_->read(); }

std::string CpuPower::problem() const {
  return meter_ == nullptr ? "the agent was not given the CPU's energy counters" : meter_->problem();
}

std::optional<std::vector<CpuPackagePower>> CpuPower::power() {
  const std::int64_t now_ns = now_ns_();
  // An older sample would tell what the CPUs drew long ago.
  const bool stale = later_ && now_ns - later_->time_ns > kLongestNs;
  if (!later_ || stale) {
    earlier_.reset();
    later_ = Sample{now_ns, energy()};
  } else if (now_ns - later_->time_ns >= kShortestNs) {
    earlier_ = std::exchange(later_, Sample{now_ns, energy()});
  }
  if (!earlier_) return std::nullopt;

  std::vector<CpuPackagePower> result;
  for (const CpuEnergy& to : later_->energy) {
    for (const CpuEnergy& from : earlier_->energy) {
      if (from.package != to.package) continue;
      const std::int64_t duration_ns = later_->time_ns - earlier_->time_ns;
      CpuPackagePower power;
      power.package = to.package;
      // The power of a step that was set aside is not known.
      if (from.package_set_aside == to.package_set_aside) {
        power.package_w = watts(from.package_uj, to.package_uj, duration_ns);
      }
      if (from.dram_set_aside == to.dram_set_aside) power.dram_w = watts(from.dram_uj, to.dram_uj, duration_ns);
      result.push_back(power);
    }
  }
  return result;
}

namespace {

/// Sum of the counters of all dies of a package, or of its memory.
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
