#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace lowgear::power {

/// The square of the core voltage at one SM clock.
struct VoltagePoint {
  double clock_mhz = 0;
  double relative_v2 = 1;  ///< as a share of that at the highest clock
  double error = 0;        ///< one standard deviation
};

/// One standard deviation around the square of the core voltage at a point.
struct VoltageBounds {
  double low = 0;
  double high = 1;
};

/// Square of the core voltage over the SM clock: a table that rises with the clock, linear between its points. Dynamic
/// energy of an operation is in proportion to it. Trivially copyable, so that processes may share it.
class VoltageCurve {
 public:
  static constexpr std::size_t kMostPoints = 40;

  /// 1 at every clock.
  VoltageCurve() = default;
  /// Points by rising clock, whose squares do not fall and end with 1 at the highest clock. Points below
  /// `measured_from_mhz` are extrapolated. Throws InputError otherwise.
  VoltageCurve(std::span<const VoltagePoint> points, double measured_from_mhz);

  /// Constant below the first point and above the last.
  [[nodiscard]] double relative_v2(double clock_mhz) const { return at(clock_mhz, &VoltagePoint::relative_v2, 1); }
  /// The clock whose product with relative_v2 is this.
  [[nodiscard]] double clock_of_product(double product_mhz) const;
  [[nodiscard]] double error(double clock_mhz) const { return at(clock_mhz, &VoltagePoint::error, 0); }
  [[nodiscard]] bool is_measured(double clock_mhz) const { return clock_mhz >= measured_from_mhz_; }
  [[nodiscard]] double measured_from_mhz() const { return measured_from_mhz_; }
  /// Of every point. The deviation is that of the voltage, so that no bound is negative, and both rise with the clock.
  [[nodiscard]] std::vector<VoltageBounds> bounds() const;
  [[nodiscard]] std::span<const VoltagePoint> points() const { return {points_.data(), count_}; }

 private:
  /// From the last point down: most work runs at high clocks.
  [[nodiscard]] double at(double clock_mhz, double VoltagePoint::*member, double without_points) const {
    if (count_ == 0) return without_points;
    std::size_t upper = count_ - 1;
    if (clock_mhz >= points_[upper].clock_mhz) return points_[upper].*member;
    while (upper > 0 && clock_mhz < points_[upper - 1].clock_mhz) --upper;
    if (upper == 0) return points_[0].*member;
    const VoltagePoint& low = points_[upper - 1];
    const VoltagePoint& high = points_[upper];
    const double along = (clock_mhz - low.clock_mhz) / (high.clock_mhz - low.clock_mhz);
    return low.*member + (high.*member - low.*member) * along;
  }

  std::array<VoltagePoint, kMostPoints> points_{};
  std::size_t count_ = 0;
  double measured_from_mhz_ = 0;
};

}  // namespace lowgear::power
