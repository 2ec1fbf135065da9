#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hardware/gpu/rapl.h"

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

/// Mean power of one CPU package between two readings.
struct CpuPackagePower {
  int package = 0;
  std::optional<double> package_w;  ///< empty without a reading of its counter
  std::optional<double> dram_w;
};

/// Power of the CPUs: what their energy counters gained between two readings 100 ms to one second apart. Reads only
/// when asked.
class CpuPower {
 public:
  /// `meter` may be null. `now_ns` is a monotonic clock.
  CpuPower(CpuMeter* meter, std::function<std::int64_t()> now_ns);

  [[nodiscard]] std::vector<CpuEnergy> energy();
  /// Empty while there is no second reading: ask again after 100 ms.
  [[nodiscard]] std::optional<std::vector<CpuPackagePower>> power();
  /// Why there are no readings; empty when there are.
  [[nodiscard]] std::string problem() const;

 private:
  struct Sample {
    std::int64_t time_ns = 0;
    std::vector<CpuEnergy> energy;
  };

  CpuMeter* meter_;
  std::function<std::int64_t()> now_ns_;
  std::optional<Sample> earlier_;
  std::optional<Sample> later_;
};

/// The energy of this machine's CPUs, as powercap shows it.
class RaplCpuMeter : public CpuMeter {
 public:
  explicit RaplCpuMeter(gpu::Rapl rapl = gpu::Rapl{});

  [[nodiscard]] std::vector<CpuEnergy> read() override;
  [[nodiscard]] std::string problem() const override { return rapl_.problem(); }

 private:
  gpu::Rapl rapl_;
};

}  // namespace lowgear::agent
