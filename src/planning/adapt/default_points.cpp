#include "planning/adapt/default_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/core/error.h"

namespace lowgear::adapt {
namespace {

constexpr double kLowestClock = 0.55;  // of the highest
// Of the power that the job draws.
constexpr double kHighestLimit = 0.97;
constexpr double kLowestLimit = 0.5;

}  // namespace

std::vector<int> default_clocks_mhz(std::span<const int> supported_mhz, double running_mhz,
                                    double allowed_slowdown_pct) {
  if (supported_mhz.empty()) throw InputError("the GPU names no clock; name the operating points");
  std::vector<int> rising_mhz(supported_mhz.begin(), supported_mhz.end());
  std::ranges::sort(rising_mhz);
  const double highest_mhz = rising_mhz.back();
  const double lowest_mhz = kLowestClock * highest_mhz;
  const double allowed_mhz =
      std::max(std::min(running_mhz, highest_mhz) / (1 + allowed_slowdown_pct / 100), lowest_mhz);
  const auto at_or_above = [&](double clock_mhz) { return *std::ranges::lower_bound(rising_mhz, clock_mhz); };
  std::vector<int> points_mhz = {rising_mhz.back()};
  constexpr auto kBelow = static_cast<int>(kDefaultPoints) - 1;
  for (int i = 0; i < kBelow; ++i) {
    points_mhz.push_back(at_or_above(allowed_mhz + (lowest_mhz - allowed_mhz) * i / (kBelow - 1)));
  }
  points_mhz.erase(std::unique(points_mhz.begin(), points_mhz.end()), points_mhz.end());
  if (points_mhz.size() < 2) {
    throw InputError(fmt::format("the GPU has no clock between {:.0f} and {} MHz; name the operating points",
                                 lowest_mhz, rising_mhz.back()));
  }
  return points_mhz;
}

std::vector<double> default_power_limits_w(double min_w, double default_w, double running_w) {
  const double highest_w = kHighestLimit * std::min(running_w, default_w);
  const double lowest_w = std::max(min_w, kLowestLimit * running_w);
  if (!(lowest_w < highest_w)) {
    throw InputError(
        fmt::format("the job draws {:.0f} W, and the GPU's least power limit is {} W: no limit would hold it "
                    "back; search among clocks",
                    running_w, min_w));
  }
  std::vector<double> points_w = {std::floor(default_w)};
  constexpr auto kBelow = static_cast<int>(kDefaultPoints) - 1;
  for (int i = 0; i < kBelow; ++i) {
    points_w.push_back(std::ceil(highest_w + (lowest_w - highest_w) * i / (kBelow - 1)));
  }
  points_w.erase(std::unique(points_w.begin(), points_w.end()), points_w.end());
  return points_w;
}

}  // namespace lowgear::adapt
