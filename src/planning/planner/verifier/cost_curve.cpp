#include "planning/planner/verifier/cost_curve.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace lowgear::planner::verifier {
namespace {

constexpr double kSteepestW = 1e7;

struct CurvePoint {
  TimePs time_ps = 0;
  double energy_j = 0;
};

double slope_w(const CurvePoint& fast, const CurvePoint& slow) {
  return (fast.energy_j - slow.energy_j) / s_from_ps(slow.time_ps - fast.time_ps);
}

/// The measurements as points, fastest first; of one time only the cheapest.
std::vector<CurvePoint> points_of(std::span<const profile::Measurement> measurements, double blocking_power_w) {
  std::vector<CurvePoint> points;
  for (const profile::Measurement& measured : measurements) {
    points.push_back({ps_not_below_s(measured.time_s), measured.energy_j - blocking_power_w * measured.time_s});
  }
  std::sort(points.begin(), points.end(), [](const CurvePoint& a, const CurvePoint& b) {
    return std::tie(a.time_ps, a.energy_j) < std::tie(b.time_ps, b.energy_j);
  });
  const auto same_time = [](const CurvePoint& a, const CurvePoint& b) { return a.time_ps == b.time_ps; };
  points.erase(std::unique(points.begin(), points.end(), same_time), points.end());
  return points;
}

/// The point that the curve goes to from `points[from]`: the one that it falls to most steeply, the slowest of equals;
/// `from` itself when none is cheaper.
std::size_t steepest_descent(std::span<const CurvePoint> points, std::size_t from) {
  std::size_t best = from;
  double best_w = 0;
  for (std::size_t to = from + 1; to < points.size(); ++to) {
    const double w = slope_w(points[from], points[to]);
    if (w > 0 && w >= best_w) {
      best = to;
      best_w = w;
    }
  }
  return best;
}

}  // namespace

CostCurve::CostCurve(std::span<const profile::Measurement> measurements, double blocking_power_w) {
  const std::vector<CurvePoint> points = points_of(measurements, blocking_power_w);
  std::size_t at = 0;
  std::size_t next = steepest_descent(points, at);
  while (next != at && slope_w(points[at], points[next]) > kSteepestW) {
    at = next;
    next = steepest_descent(points, at);
  }
  corners_.push_back({points[at].time_ps, static_cast<EnergyZj>(points[at].energy_j * kZjPerJoule), 0});
  for (; next != at; at = next, next = steepest_descent(points, at)) {
    PowerNw slope_nw = nw_from_w(slope_w(points[at], points[next]));
    if (slope_nw == 0) break;
    if (corners_.size() > 1) slope_nw = std::min(slope_nw, corners_[corners_.size() - 2].slope_nw);
    Corner& here = corners_.back();
    here.slope_nw = slope_nw;
    const TimePs time_ps = points[next].time_ps;
    corners_.push_back({time_ps, here.energy_zj - static_cast<EnergyZj>(slope_nw) * (time_ps - here.time_ps), 0});
  }
}

EnergyZj CostCurve::energy_zj(TimePs time_ps) const {
  const auto slower = std::upper_bound(corners_.begin(), corners_.end(), time_ps,
                                       [](TimePs time, const Corner& corner) { return time < corner.time_ps; });
  const Corner& corner = *std::prev(slower);
  return corner.energy_zj - static_cast<EnergyZj>(corner.slope_nw) * (time_ps - corner.time_ps);
}

EnergyZj CostCurve::least_at_price_zj(PowerNw price_nw) const {
  const auto with_price = [&](const Corner& corner) {
    return corner.energy_zj + static_cast<EnergyZj>(price_nw) * corner.time_ps;
  };
  EnergyZj least = with_price(corners_.front());
  for (const Corner& corner : corners_) least = std::min(least, with_price(corner));
  return least;
}

}  // namespace lowgear::planner::verifier
