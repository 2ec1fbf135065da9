#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/core/energy/checked_counter.h"

namespace lowgear::gpu {

/// Energy of one CPU package, or of its memory.
struct RaplReading {
  std::string zone;     ///< `package-0`, `package-0/dram`
  int package = 0;      ///< the number in the package's name
  bool dram = false;    ///< the package's memory; the package's counter leaves it out
  double energy_j = 0;  ///< since the Rapl was made, without impossible steps
  /// Number of times that the counter was set aside since then. The energy over such a time is unknown.
  long set_aside = 0;
  /// Why the energy is unknown now: the counter is unreadable, stands still, or has not moved yet. Empty: it is known.
  std::string problem;
};

/// Reads the energy counters of CPUs and memory as Linux shows them under powercap (Documentation/power/powercap:
/// Intel's RAPL, and AMD's by the same name). Packages and their memory only: cores and uncore are parts of the
/// package, `psys` holds everything once more. Not safe from several threads.
class Rapl {
 public:
  /// `root` is the folder of powercap's zones, another one in tests. Leaves out unreadable zones; `problem` says why.
  /// `now_s` is a monotonic clock; empty: the system's.
  explicit Rapl(const std::filesystem::path& root = "/sys/class/powercap", std::function<double()> now_s = {});

  /// Call this more often than the counters wrap around (a minute at full load, on the smallest).
  [[nodiscard]] std::vector<RaplReading> read();
  /// Why there are no readings; empty when there are.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  struct Zone {
    RaplReading reading;
    std::filesystem::path energy_file;
    std::uint64_t range_uj = 0;    ///< the counter starts over after this
    std::uint64_t last_uj = 0;     ///< as it was read
    std::uint64_t wrapped_uj = 0;  ///< energy of all wraps
    double last_time_s = 0;
    CheckedCounter counter;
  };

  void add_zone(const std::filesystem::path& folder, RaplReading reading);
  void add_package(const std::filesystem::path& folder);
  static void add(Zone& zone, std::uint64_t now_uj, double time_s);

  std::function<double()> now_s_;
  std::vector<Zone> zones_;
  std::string problem_;
};

}  // namespace lowgear::gpu
