#include "estimating/curve/voltage_table.h"

#include <algorithm>
#include <cmath>

namespace lowgear::curve {
namespace {

constexpr double kKnotStepMhz = 45;
constexpr int kMostKnots = 24;
constexpr int kExtrapolated = 10;

}  // namespace

VoltageTable::VoltageTable(std::span<const double> clocks_mhz, double max_mhz, double tolerance_mhz) {
  if (clocks_mhz.empty()) return;
  const double from_mhz = std::ranges::min(clocks_mhz);
  if (from_mhz >= max_mhz - tolerance_mhz) return;
  const int count = std::clamp(static_cast<int>(std::lround((max_mhz - from_mhz) / kKnotStepMhz)), 1, kMostKnots);
  step_mhz_ = (max_mhz - from_mhz) / count;
  for (int i = 0; i < count; ++i) knots_.push_back(from_mhz + i * step_mhz_);
}

std::array<VoltageTable::Weight, 2> VoltageTable::weights(double clock_mhz) const {
  if (knots_.empty()) return {Weight{-1, 1}, Weight{-1, 0}};
  const double place = std::clamp((clock_mhz - knots_.front()) / step_mhz_, 0.0, static_cast<double>(knots_.size()));
  const int lower = std::min(static_cast<int>(place), static_cast<int>(knots_.size()) - 1);
  const double along = place - lower;
  const int upper = lower + 1 < static_cast<int>(knots_.size()) ? lower + 1 : -1;
  return {Weight{lower, 1 - along}, Weight{upper, along}};
}

void make_monotone(std::vector<power::VoltagePoint>& points) {
  struct Pool {
    double weighted = 0;
    double weight = 0;
    std::size_t count = 0;
    [[nodiscard]] double mean() const { return weighted / weight; }
  };
  if (points.empty()) return;
  constexpr double kLeastError = 1e-6;
  std::vector<Pool> pools;
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const double v2 = std::min(points[i].relative_v2, points.back().relative_v2);
    const double weight = 1 / std::pow(std::max(points[i].error, kLeastError), 2);
    pools.push_back({v2 * weight, weight, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().weighted += last.weighted;
      pools.back().weight += last.weight;
      pools.back().count += last.count;
    }
  }
  std::size_t i = 0;
  for (const Pool& pool : pools) {
    for (std::size_t k = 0; k < pool.count; ++k) points[i++].relative_v2 = pool.mean();
  }
}

std::vector<power::VoltagePoint> with_extrapolation(std::vector<power::VoltagePoint> points, double to_mhz) {
  if (points.size() < 2 || to_mhz >= points.front().clock_mhz) return points;
  const power::VoltagePoint first = points.front();
  const power::VoltagePoint& other = points[std::max<std::size_t>(1, points.size() / 3)];
  const double first_v = std::sqrt(first.relative_v2);
  const double span_mhz = other.clock_mhz - first.clock_mhz;
  const double slope = std::max(0.0, (std::sqrt(other.relative_v2) - first_v) / span_mhz);
  const double slope_error = std::hypot(other.error, first.error) / (2 * first_v * span_mhz);
  std::vector<power::VoltagePoint> all;
  for (int i = 0; i < kExtrapolated; ++i) {
    const double clock_mhz = to_mhz + (first.clock_mhz - to_mhz) * i / kExtrapolated;
    const double below_mhz = first.clock_mhz - clock_mhz;
    const double v = std::max(0.1, first_v - slope * below_mhz);
    const double fall = first.relative_v2 - v * v;
    const double error = std::hypot(first.error, fall / 2, 2 * v * slope_error * below_mhz);
    all.push_back({clock_mhz, v * v, error});
  }
  all.insert(all.end(), points.begin(), points.end());
  return all;
}

}  // namespace lowgear::curve
