#include "hardware/gpu/rapl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/core/numbers/number.h"

namespace lowgear::gpu {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPackagePrefix = "package-";
constexpr std::string_view kDieInfix = "-die-";
constexpr double kJoulesPerMicrojoule = 1e-6;
/// RAPL's counters move every millisecond.
constexpr CounterTraits kTraits = {
    .period_s = 0.001, .highest_power_w = kHighestCpuPowerW, .lowest_power_w = 0, .compares_power = false};

double steady_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// The first line of a file of sysfs; empty when it cannot be read, and `errno` then says why.
std::optional<std::string> first_line(const fs::path& file) {
  errno = 0;
  std::ifstream stream(file);
  std::string line;
  if (!std::getline(stream, line)) return std::nullopt;
  return line;
}

std::string unreadable(const fs::path& file) {
  return errno == EACCES ? fmt::format("{}: only root may read it (since CVE-2020-8694)", file.string())
                         : fmt::format("{}: cannot be read", file.string());
}

std::optional<std::uint64_t> counter(const fs::path& file) {
  const std::optional<std::string> line = first_line(file);
  const std::optional<long long> value = line ? parse_integer(*line) : std::nullopt;
  return value && *value >= 0 ? std::optional(static_cast<std::uint64_t>(*value)) : std::nullopt;
}

std::vector<fs::path> folders_in(const fs::path& root) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator entry(root, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
    folders.push_back(entry->path());
  }
  std::ranges::sort(folders);
  return folders;
}

/// The number of the package in `package-0` and, where each die of a package has its own counter, `package-0-die-1`;
/// empty for other zones. `psys`, the whole board, counts the packages a second time.
std::optional<long long> package_of(std::string_view zone) {
  if (!zone.starts_with(kPackagePrefix)) return std::nullopt;
  zone.remove_prefix(kPackagePrefix.size());
  return parse_integer(zone.substr(0, zone.find(kDieInfix)));
}

}  // namespace

Rapl::Rapl(const fs::path& root, std::function<double()> now_s) : now_s_(now_s ? std::move(now_s) : steady_s) {
  for (const fs::path& folder : folders_in(root)) {
    // Top zones are `intel-rapl:0`, their parts `intel-rapl:0:0`; `intel-rapl-mmio` shows the same counters again.
    const std::string name = folder.filename().string();
    if (name.starts_with("intel-rapl:") && std::ranges::count(name, ':') == 1) add_package(folder);
  }
  if (zones_.empty() && problem_.empty()) {
    problem_ = fmt::format(
        "{}: no CPU energy counters here (a virtual machine, or the intel_rapl module is not loaded)", root.string());
  }
  if (!zones_.empty()) problem_.clear();
}

void Rapl::add_package(const fs::path& folder) {
  const std::string name = first_line(folder / "name").value_or("");
  const std::optional<long long> package = package_of(name);
  if (!package) return;
  RaplReading reading;
  reading.zone = name;
  reading.package = static_cast<int>(*package);
  add_zone(folder, reading);
  for (const fs::path& part : folders_in(folder)) {
    if (first_line(part / "name") != "dram") continue;
    reading.zone = name + "/dram";
    reading.dram = true;
    add_zone(part, reading);
  }
}

void Rapl::add_zone(const fs::path& folder, RaplReading reading) {
  const fs::path file = folder / "energy_uj";
  const std::optional<std::uint64_t> now_uj = counter(file);
  if (!now_uj) {
    problem_ = unreadable(file);
    return;
  }
  zones_.push_back({.reading = std::move(reading),
                    .energy_file = file,
                    .range_uj = counter(folder / "max_energy_range_uj").value_or(0),
                    .last_uj = *now_uj,
                    .counter = CheckedCounter(kTraits)});
  add(zones_.back(), *now_uj, now_s_());
}

/// A counter that fell has started over at the end of its range, where the CPU can have drawn that much.
void Rapl::add(Zone& zone, std::uint64_t now_uj, double time_s) {
  if (now_uj < zone.last_uj && zone.range_uj >= zone.last_uj) {
    const double step_j = static_cast<double>(now_uj + zone.range_uj - zone.last_uj) * kJoulesPerMicrojoule;
    const EnergyVerdict verdict = check_energy({.energy_j = step_j,
                                                .time_s = time_s - zone.last_time_s,
                                                .period_s = kTraits.period_s,
                                                .highest_power_w = kTraits.highest_power_w});
    if (verdict.usable()) zone.wrapped_uj += zone.range_uj;
  }
  zone.last_uj = now_uj;
  zone.last_time_s = time_s;
  const double shown_j = static_cast<double>(zone.wrapped_uj + now_uj) * kJoulesPerMicrojoule;
  const double before_j = zone.counter.energy_j().value_or(shown_j);
  (void)zone.counter.add({.time_s = time_s, .time_error_s = 0, .energy_j = shown_j, .power_w = {}});
  zone.reading.energy_j += *zone.counter.energy_j() - before_j;
}

std::vector<RaplReading> Rapl::read() {
  std::vector<RaplReading> readings;
  for (Zone& zone : zones_) {
    const std::optional<std::uint64_t> now_uj = counter(zone.energy_file);
    zone.reading.problem = now_uj ? "" : unreadable(zone.energy_file);
    if (now_uj) add(zone, *now_uj, now_s_());
    const EnergyVerdict& state = zone.counter.state();
    if (now_uj && !state.usable()) {
      zone.reading.problem = fmt::format("{}: the counter {}", zone.energy_file.string(), state.reason);
    } else if (now_uj && !zone.counter.has_moved()) {
      zone.reading.problem = fmt::format("{}: the counter has not moved yet", zone.energy_file.string());
    }
    zone.reading.set_aside = zone.counter.set_aside();
    readings.push_back(zone.reading);
  }
  return readings;
}

}  // namespace lowgear::gpu
