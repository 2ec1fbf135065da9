#include "estimating/curve/clock_by_rate.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace lowgear::curve {
namespace {

/// A kind's operations in a cycle at steady clocks. The driver reports no more than the highest clock, also where the
/// GPU runs a step or two above it, so the lower values count. Empty without a steady sample.
std::optional<double> steady_ops_per_cycle(std::span<const CurveSample> samples, const CurveLoad& kind) {
  constexpr double kSteadyMhz = 30;
  std::vector<double> values;
  for (const CurveSample& sample : samples) {
    const bool steady =
        sample.highest_clock_mhz > 0 && sample.highest_clock_mhz - sample.lowest_clock_mhz <= kSteadyMhz;
    if (rate_shows_clock(sample.load) && kind_of(sample.load) == kind && steady)
      values.push_back(ops_per_cycle(sample));
  }
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  return values[values.size() / 4];
}

}  // namespace

bool rate_shows_clock(const CurveLoad& load) { return load.product_sms > 0 && load.reads == 0; }

double ops_per_cycle(const CurveSample& sample) {
  return sample.operations / sample.time_s / (sample.clock_mhz * 1e6) / sample.load.product_sms;
}

CurveLoad kind_of(CurveLoad load) {
  load.product_sms = 0;
  load.reads = 0;
  load.stream_sms = 0;
  load.cached = false;
  return load;
}

std::vector<double> clocks_by_rate(std::span<const CurveSample> samples) {
  constexpr double kPlausible = 0.04;
  std::vector<double> clocks;
  for (const CurveSample& sample : samples) {
    clocks.push_back(sample.clock_mhz);
    if (sample.load.product_sms == 0) continue;
    const auto steady = steady_ops_per_cycle(samples, kind_of(sample.load));
    if (!steady) continue;
    const double relative = ops_per_cycle(sample) / *steady;
    if (std::fabs(relative - 1) > kPlausible) continue;
    clocks.back() *= rate_shows_clock(sample.load) ? relative : std::max(1.0, relative);
  }
  return clocks;
}

}  // namespace lowgear::curve
