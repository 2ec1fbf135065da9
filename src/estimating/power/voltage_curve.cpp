#include "estimating/power/voltage_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/core/error.h"

namespace lowgear::power {

VoltageCurve::VoltageCurve(std::span<const VoltagePoint> points, double measured_from_mhz)
    : count_(points.size()), measured_from_mhz_(measured_from_mhz) {
  if (points.empty()) throw InputError("a voltage curve needs points");
  if (points.size() > kMostPoints) {
    throw InputError(fmt::format("a voltage curve has at most {} points, not {}", kMostPoints, points.size()));
  }
  double last_mhz = 0;
  double last_v2 = 0;
  for (const VoltagePoint& point : points) {
    if (!std::isfinite(point.clock_mhz) || point.clock_mhz <= last_mhz) {
      throw InputError(fmt::format("the clocks of a voltage curve do not rise at {} MHz", point.clock_mhz));
    }
    if (!(point.relative_v2 > 0 && point.relative_v2 >= last_v2 && point.relative_v2 <= 1)) {
      throw InputError(
          fmt::format("relative_v2 of {} at {} MHz is not above 0, below that of a lower clock, or above 1",
                      point.relative_v2, point.clock_mhz));
    }
    if (!(point.error >= 0 && point.error < 1)) {
      throw InputError(
          fmt::format("the error {} of relative_v2 at {} MHz is not in [0, 1)", point.error, point.clock_mhz));
    }
    last_mhz = point.clock_mhz;
    last_v2 = point.relative_v2;
  }
  if (last_v2 != 1) throw InputError("relative_v2 is not 1 at the highest clock of the voltage curve");
  if (!(measured_from_mhz >= 0 && measured_from_mhz <= last_mhz)) {
    throw InputError(
        fmt::format("measured_from_mhz of {} is above the highest clock of {} MHz", measured_from_mhz, last_mhz));
  }
  std::ranges::copy(points, points_.begin());
}

std::vector<VoltageBounds> VoltageCurve::bounds() const {
  std::vector<VoltageBounds> all;
  double low = 0;
  for (const VoltagePoint& point : points()) {
    const double voltage = std::sqrt(point.relative_v2);
    const double error = point.error / (2 * voltage);
    low = std::max(low, std::pow(std::max(0.0, voltage - error), 2));
    all.push_back({low, std::pow(voltage + error, 2)});
  }
  double high = 1;
  for (std::size_t i = all.size(); i-- > 0;) all[i].high = high = std::min(high, all[i].high);
  return all;
}

double VoltageCurve::clock_of_product(double product_mhz) const {
  if (count_ == 0) return product_mhz;
  const auto product_of = [](const VoltagePoint& point) { return point.clock_mhz * point.relative_v2; };
  std::size_t upper = count_;
  while (upper > 0 && product_mhz < product_of(points_[upper - 1])) --upper;
  if (upper == count_) return product_mhz / points_[count_ - 1].relative_v2;
  if (upper == 0) return product_mhz / points_[0].relative_v2;
  // V^2 = offset + slope f, so that slope f^2 + offset f is the product.
  const VoltagePoint& low = points_[upper - 1];
  const VoltagePoint& high = points_[upper];
  const double slope = (high.relative_v2 - low.relative_v2) / (high.clock_mhz - low.clock_mhz);
  const double offset = low.relative_v2 - slope * low.clock_mhz;
  return 2 * product_mhz / (offset + std::sqrt(offset * offset + 4 * slope * product_mhz));
}

}  // namespace lowgear::power
