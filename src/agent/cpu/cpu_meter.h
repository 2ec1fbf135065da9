#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lowgear::agent {

/// Energy of one CPU package since its counter was started, corrected for wrap-arounds.
struct CpuEnergy {
  int package = 0;                          ///< number of the package, as powercap names it
  std::optional<std::uint64_t> package_uj;  ///< empty when its counter cannot be read or stands still
  std::optional<std::uint64_t> dram_uj;     ///< likewise, and when the package does not report its memory
  /// Steps of the counters that cannot be, and times in which they stood still.
  long package_set_aside = 0;
  long dram_set_aside = 0;
  std::string problem = {};  ///< why one of them is empty although there is a counter; empty when none is
};

/// Reads the energy of the CPUs (RAPL). Calls return within a millisecond.
class CpuMeter {
 public:
  virtual ~CpuMeter() = default;

  /// The packages that report, by number. Empty when none does.
  [[nodiscard]] virtual std::vector<CpuEnergy> read() = 0;
  /// Why there are no readings (`/sys/class/powercap is not there`); empty when there are.
  [[nodiscard]] virtual std::string problem() const = 0;
};

}  // namespace lowgear::agent
