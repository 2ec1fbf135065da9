#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/cpu/cpu_meter.h"

namespace lowgear::agent {

/// Mean power of one CPU package between two readings.
struct CpuPackagePower {
  int package = 0;
  std::optional<double> package_w;  ///< empty when its counter does not tell
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

}  // namespace lowgear::agent
