#include "server/budgets/power_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/core/error.h"

namespace lowgear::server {
namespace {

/// Vertices of a frontier are rounded: slopes that rise by less count as equal.
constexpr double kSlopeTolerance = 1e-6;

double slope_w(const CurvePoint& from, const CurvePoint& to) {
  return (from.energy_j - to.energy_j) / (to.time_s - from.time_s);
}

void check(std::span<const CurvePoint> vertices) {
  if (vertices.empty()) throw InputError("a frontier without vertices; give one at least");
  double slope_before_w = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < vertices.size(); ++i) {
    const CurvePoint& vertex = vertices[i];
    if (!(vertex.time_s > 0 && vertex.energy_j > 0 && std::isfinite(vertex.time_s) && std::isfinite(vertex.energy_j))) {
      throw InputError(fmt::format("vertex {} of the frontier: {} s and {} J; both must be above 0 and finite", i,
                                   vertex.time_s, vertex.energy_j));
    }
    if (i == 0) continue;
    if (!(vertex.time_s > vertices[i - 1].time_s)) {
      throw InputError(fmt::format("vertex {} of the frontier: {} s does not exceed the time before it, {} s", i,
                                   vertex.time_s, vertices[i - 1].time_s));
    }
    const double slope = slope_w(vertices[i - 1], vertex);
    if (!(slope >= 0 && slope <= slope_before_w * (1 + kSlopeTolerance))) {
      throw InputError(
          fmt::format("vertex {} of the frontier: energies must fall, and ever more slowly; they fall by "
                      "{} J/s to it, and by {} J/s before",
                      i, slope, slope_before_w));
    }
    slope_before_w = slope;
  }
}

}  // namespace

PowerCurve::PowerCurve(std::span<const CurvePoint> vertices, double slowest_s) {
  check(vertices);
  vertices_.push_back(vertices.front());
  for (const CurvePoint& vertex : vertices.subspan(1)) {
    if (vertex.time_s <= slowest_s) {
      vertices_.push_back(vertex);
      continue;
    }
    const CurvePoint& last = vertices_.back();
    if (slowest_s > last.time_s) {
      const double fallen_j = slope_w(last, vertex) * (slowest_s - last.time_s);
      vertices_.push_back({slowest_s, last.energy_j - fallen_j});
    }
    break;
  }
}

double PowerCurve::intercept_j(std::size_t i) const {
  return vertices_[i].energy_j + slope_w(vertices_[i], vertices_[i + 1]) * vertices_[i].time_s;
}

double PowerCurve::power_w(double time_s) const {
  const double clamped_s = std::clamp(time_s, fastest_s(), slowest_s());
  const auto after = std::ranges::upper_bound(vertices_, clamped_s, {}, &CurvePoint::time_s);
  if (after == vertices_.end()) return vertices_.back().energy_j / vertices_.back().time_s;
  const auto i = static_cast<std::size_t>(after - vertices_.begin()) - 1;
  return intercept_j(i) / clamped_s - slope_w(vertices_[i], vertices_[i + 1]);
}

double PowerCurve::time_s(double power_w) const {
  const auto too_much = [&](const CurvePoint& vertex) { return vertex.energy_j > power_w * vertex.time_s; };
  const auto fits = std::ranges::partition_point(vertices_, too_much);
  if (fits == vertices_.begin()) return fastest_s();
  if (fits == vertices_.end()) return slowest_s();
  const auto i = static_cast<std::size_t>(fits - vertices_.begin()) - 1;
  return intercept_j(i) / (power_w + slope_w(vertices_[i], vertices_[i + 1]));
}

/// On a line, weight * t + price * (c / t - s) is least at sqrt(price c / weight). The intercepts c fall from line to
/// line, so that the first line whose best time is not after its end has the best one.
double PowerCurve::best_time_s(double time_weight, double price) const {
  for (std::size_t i = 0; i + 1 < vertices_.size(); ++i) {
    const double best_s = std::sqrt(price * intercept_j(i) / time_weight);
    if (best_s <= vertices_[i + 1].time_s) return std::max(best_s, vertices_[i].time_s);
  }
  return slowest_s();
}

}  // namespace lowgear::server
