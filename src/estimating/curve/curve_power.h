#pragma once

#include <Eigen/Dense>
#include <cstddef>
#include <span>
#include <vector>

#include "estimating/curve/curve_sample.h"
#include "estimating/curve/voltage_table.h"

namespace lowgear::curve {

/// Parameters of the fit by their place in the vector; energies of loads from `kLoads` on, then V^2 of the knots.
enum Place : Eigen::Index {
  kStatic,
  kPerKelvin,
  kDrift,
  kTree,
  kByteFixed,
  kByteClocked,
  kAwake,
  kCacheFixed,
  kCacheClocked,
  kLoss,
  kLoads
};

/// Share of its awake power that device memory draws at a rate of reads.
[[nodiscard]] double awake_share(double tera_bytes);

/// The power of CurveFit over its samples, with the unknowns of the fit in `values`.
struct PowerModel {
  std::span<const CurveSample> samples;
  double max_mhz = 0;
  std::vector<double> clocks;    ///< of the samples
  std::vector<CurveLoad> kinds;  ///< of loads with products
  VoltageTable table;
  Eigen::VectorXd values;

  [[nodiscard]] Eigen::Index first_knot() const { return kLoads + static_cast<Eigen::Index>(kinds.size()); }
  [[nodiscard]] Eigen::Index unknowns() const { return first_knot() + static_cast<Eigen::Index>(table.knots().size()); }

  /// Values of a sample that the model multiplies its parameters by.
  struct Terms {
    double static_time = 0;  ///< share of all the time, -0.5 to 0.5
    double kelvin = 0;
    double clock = 0;  ///< as a share of the highest
    double v2 = 1;
    double tera_ops = 0;          ///< in a second
    double tera_bytes = 0;        ///< in a second
    double tera_cache_bytes = 0;  ///< in a second
    Eigen::Index load = 0;        ///< place of its energy; 0: none
  };
  [[nodiscard]] Terms terms(std::size_t i) const;
  [[nodiscard]] double v2_at(double clock_mhz) const;
  [[nodiscard]] double fixed_w(const Terms& terms) const;
  /// Power of work that goes with V^2, where that is 1.
  [[nodiscard]] double work_w(const Terms& terms) const;
  [[nodiscard]] double fitted_w(const Terms& terms) const;
  [[nodiscard]] double fitted_w(std::size_t i) const;
  /// Growth of the delivered power with that of the work.
  [[nodiscard]] double delivery(const Terms& terms) const;
  /// Growth of the power with V^2.
  [[nodiscard]] double slope_w(const Terms& terms) const;
  [[nodiscard]] Eigen::VectorXd gradient(std::size_t i) const;
};

}  // namespace lowgear::curve
