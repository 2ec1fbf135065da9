#pragma once

#include <cstdint>
#include <optional>

#include "base/core/energy/energy_check.h"

namespace lowgear {

/// Energies of intervals that follow each other, as iterations of one rank, judged together. A step of the counter
/// excuses a run of intervals once: one that is shorter than a step may show the energy of a whole one, or none, but
/// not each of a hundred. So does the overshoot of a power limit.
class EnergyRun {
 public:
  struct Judged {
    EnergyVerdict verdict;
    std::int64_t first = 0;  ///< the intervals from this one on make the verdict together
  };

  /// Takes the next interval. Numbers rise; intervals that are left out took as long as this one.
  [[nodiscard]] Judged add(std::int64_t number, const StatedEnergy& stated);

 private:
  /// Intervals that are judged together.
  struct Span {
    std::int64_t first = 0;
    StatedEnergy sum;

    void add(const StatedEnergy& stated);
  };

  std::optional<std::int64_t> last_;
  Span run_;             ///< since the excess was 0
  double excess_j_ = 0;  ///< the most by which intervals up to the last one are above what can be drawn in them
  Span still_;           ///< intervals with less energy than must be drawn in them, up to the last one
};

}  // namespace lowgear
