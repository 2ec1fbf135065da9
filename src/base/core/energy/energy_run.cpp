#include "base/core/energy/energy_run.h"

#include <algorithm>

namespace lowgear {

void EnergyRun::Span::add(const StatedEnergy& stated) {
  sum.energy_j += stated.energy_j;
  sum.time_s += stated.time_s;
  sum.error_j += stated.error_j;
  sum.period_s = stated.period_s;
  sum.highest_power_w = stated.highest_power_w;
  sum.lasting_power_w = stated.lasting_power_w;
  sum.lowest_power_w = stated.lowest_power_w;
}

EnergyRun::Judged EnergyRun::add(std::int64_t number, const StatedEnergy& stated) {
  const double left_out = last_ ? static_cast<double>(std::max<std::int64_t>(0, number - *last_ - 1)) : 0;
  last_ = number;
  const double lasting_w = std::min(stated.highest_power_w, stated.lasting_power_w);
  const double step_j = stated.highest_power_w * stated.period_s + (stated.highest_power_w - lasting_w) * kOvershootS;
  excess_j_ = std::max(0.0, excess_j_ - lasting_w * left_out * stated.time_s);
  if (excess_j_ <= 0) run_ = {.first = number, .sum = {}};
  run_.add(stated);
  const double excess_j = excess_j_ + stated.energy_j - stated.error_j - lasting_w * stated.time_s;
  // The step stays used up. What is beyond it is not held against the intervals that come next.
  excess_j_ = std::clamp(excess_j, 0.0, step_j);
  if (excess_j > step_j) return {.verdict = check_energy(run_.sum), .first = run_.first};

  const bool draws = stated.energy_j > 0 && stated.energy_j + stated.error_j >= stated.lowest_power_w * stated.time_s;
  if (draws) {
    still_ = {};
    return {.verdict = check_energy(stated), .first = number};
  }
  if (still_.sum.time_s <= 0) still_.first = number;
  still_.add(stated);
  return {.verdict = check_energy(still_.sum), .first = still_.first};
}

}  // namespace lowgear
