#include "planning/profile/regression/monotone_times.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace lowgear::profile {
namespace {

constexpr double kLeastRelativeError = 0.003;
constexpr double kStandardErrors = 3;

/// Neighbouring clocks that share a time.
struct Pool {
  std::vector<std::size_t> members;
  double time_s = 0;
  double weight = 0;  ///< inverse square of the error of `time_s`; 0: not known

  [[nodiscard]] double variance() const { return 1 / weight; }
};

Pool pool_of(std::size_t member, const ClockTime& time) {
  const double error_s = std::max(time.error_s, kLeastRelativeError * time.time_s);
  return {{member}, time.time_s, time.error_s > 0 ? 1 / (error_s * error_s) : 0};
}

/// Whether the pool of higher clocks is slower, by no more than noise.
bool are_out_of_order_by_noise(const Pool& higher, const Pool& lower) {
  if (higher.time_s <= lower.time_s || higher.weight == 0 || lower.weight == 0) return false;
  return higher.time_s - lower.time_s <= kStandardErrors * std::sqrt(higher.variance() + lower.variance());
}

void merge(Pool& into, const Pool& other) {
  into.time_s = (into.weight * into.time_s + other.weight * other.time_s) / (into.weight + other.weight);
  into.weight += other.weight;
  into.members.insert(into.members.end(), other.members.begin(), other.members.end());
}

}  // namespace

std::vector<ClockTime> monotone_times(std::vector<ClockTime> times) {
  std::vector<std::size_t> highest_first(times.size());
  std::iota(highest_first.begin(), highest_first.end(), std::size_t{0});
  std::ranges::sort(highest_first, std::greater<>(), [&times](std::size_t i) { return times[i].clock_mhz; });
  std::vector<Pool> pools;
  for (const std::size_t member : highest_first) {
    pools.push_back(pool_of(member, times[member]));
    while (pools.size() >= 2 && are_out_of_order_by_noise(pools[pools.size() - 2], pools.back())) {
      merge(pools[pools.size() - 2], pools.back());
      pools.pop_back();
    }
  }
  for (const Pool& pool : pools) {
    if (pool.members.size() == 1) continue;
    for (const std::size_t member : pool.members) {
      times[member].time_s = pool.time_s;
      times[member].error_s = std::sqrt(pool.variance());
    }
  }
  return times;
}

}  // namespace lowgear::profile
