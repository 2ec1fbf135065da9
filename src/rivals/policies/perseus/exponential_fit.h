#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/core/op_kind.h"

namespace lowgear::policies {

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

/// The time unit of Perseus' artifact, in seconds.
inline constexpr double kPerseusUnitS = 1e-3;

/// How much noise of measurements is allowed for when options are dropped that another one beats.
struct NoiseTolerance {
  /// Another option has to be below this factor times an option's time and energy to drop it; above 0, at most 1.
  double factor = 0.95;
  bool always = false;  ///< not only where without it three options or fewer are left
};

/// Where the fit of each (stage, kind) starts, in place of the search over 54 starting points.
using InitialGuess = std::map<std::pair<int, OpKind>, ExponentialCurve>;

/// The settings of lowtime's perseus.py.
struct PerseusOptions {
  double unit_s = kPerseusUnitS;
  NoiseTolerance noise;
  InitialGuess initial_guess;  ///< empty: the search; otherwise of every (stage, kind) that is planned
};

/// Reads the file of lowtime's --initial-guess: a Python or JSON literal with a list of (scale J, rate per time unit,
/// offset J) by stage for each instruction, {"Forward": [(1e2, -0.02, 10), ...], "Backward": [...]}. Parsed as data,
/// never evaluated; comments are skipped. Throws InputError with line and column, also for more stages than
/// profile::kMaxStages.
[[nodiscard]] InitialGuess read_initial_guess(std::string_view text, const std::string& source);

}  // namespace lowgear::policies
