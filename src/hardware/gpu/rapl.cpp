#include "hardware/gpu/rapl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
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

/// The first line of a file of sysfs; empty when it cannot be read, and `errno` then says why.
std::optional<std::string> first_line(const fs::path& file) {
  errno = 0;
  std::ifstream stream(file);
  std::string line;
  if (!std::getline(stream, line)) return std::nullopt;
  return line;
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

Rapl::Rapl(const fs::path& root) {
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
  add_zone(folder, {.zone = name, .package = static_cast<int>(*package), .dram = false, .energy_j = 0});
  for (const fs::path& part : folders_in(folder)) {
    if (first_line(part / "name") == "dram") {
      add_zone(part, {.zone = name + "/dram", .package = static_cast<int>(*package), .dram = true, .energy_j = 0});
    }
  }
}

void Rapl::add_zone(const fs::path& folder, RaplReading reading) {
  const fs::path file = folder / "energy_uj";
  const std::optional<std::uint64_t> now_uj = counter(file);
  if (!now_uj) {
    problem_ = errno == EACCES ? fmt::format("{}: only root may read it (since CVE-2020-8694)", file.string())
                               : fmt::format("{}: cannot be read", file.string());
    return;
  }
  zones_.push_back({.reading = std::move(reading),
                    .energy_file = file,
                    .range_uj = counter(folder / "max_energy_range_uj").value_or(0),
                    .last_uj = *now_uj});
}

std::vector<RaplReading> Rapl::read() {
  std::vector<RaplReading> readings;
  for (Zone& zone : zones_) {
    if (const std::optional<std::uint64_t> now_uj = counter(zone.energy_file)) {
      const std::uint64_t wrapped_uj = *now_uj < zone.last_uj ? zone.range_uj : 0;
      // A counter that fell without a known range started over: what it shows is all that is known.
      const std::uint64_t since_uj =
          *now_uj + wrapped_uj >= zone.last_uj ? *now_uj + wrapped_uj - zone.last_uj : *now_uj;
      zone.reading.energy_j += static_cast<double>(since_uj) * 1e-6;
      zone.last_uj = *now_uj;
    }
    readings.push_back(zone.reading);
  }
  return readings;
}

}  // namespace lowgear::gpu
