#pragma once

#include <map>
#include <utility>

#include "base/core/op_kind.h"
#include "planning/planner/exponential/exponential_fit.h"

namespace lowgear::planner {

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

}  // namespace lowgear::planner
