#pragma once

#include <optional>
#include <span>

namespace lowgear::planner {

/// energy(d) = scale * exp(rate * d) + offset, with d a whole number of Perseus' time units.
struct ExponentialCurve {
  double scale_j = 0;
  double rate_per_unit = 0;
  double offset_j = 0;

  [[nodiscard]] double energy_j(double units) const;
};

struct CurvePoint {
  double units = 0;
  double energy_j = 0;
};

/// Fits the curve as the planner of Perseus does (SOSP'24 artifact): unweighted least squares by Levenberg-Marquardt
/// (MINPACK's, tolerances 1.49e-8) from 54 starting points that suit ops of 50 to 300 ms; of the results with
/// scale >= 0 and a finite covariance, the one of least squared error.
/// Six starts are tried first, and stand for the 54 where they all end in the same curve.
/// Empty when the covariance is not defined (fewer than four points) or no start ends in such a result.
[[nodiscard]] std::optional<ExponentialCurve> fit_exponential(std::span<const CurvePoint> points, double unit_s);

/// The same from one starting point.
[[nodiscard]] std::optional<ExponentialCurve> fit_exponential_from(std::span<const CurvePoint> points,
                                                                   const ExponentialCurve& start);

}  // namespace lowgear::planner
