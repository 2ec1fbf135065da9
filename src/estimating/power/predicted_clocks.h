#pragma once

#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/op_kind.h"
#include "estimating/power/gpu_file.h"
#include "planning/profile/energy_regression.h"
#include "planning/profile/few_clock_fit.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::power {

/// The part of an op's time that follows the clock, where the op runs at a clock.
struct ClockShare {
  double share = 0;
  double clock_mhz = 0;

  /// The part at another clock: the rest of the time stays.
  [[nodiscard]] double at(double other_mhz) const {
    const double stretched = share * clock_mhz / other_mhz;
    return stretched / (stretched + 1 - share);
  }
};

/// Expectations about an op, with standard errors. A recording at several clocks corrects them.
struct ClockAssumptions {
  Estimated time_share = {0.7, 0.2};  ///< part of the time that follows the clock, at the highest recorded clock
  std::map<std::pair<int, OpKind>, ClockShare> estimated_time_shares = {};  ///< of ops, in place of time_share
  double estimated_error = 0.1;                                             ///< of those
  Estimated energy_share = {0.85, 0.12};  ///< part of the energy above static power that goes with voltage^2
  double time_walk = 0.25;    ///< error of the time for each e-fold below the recorded clocks: kernels may change
  double temperature_k = 15;  ///< error of the die's temperature
};

/// Where the part of an op's time that follows the clock comes from.
enum class ShareOrigin : unsigned char { assumed, estimated, recorded };
[[nodiscard]] std::string_view name(ShareOrigin origin);

/// The part of an op's time that follows the clock.
struct TimeShare {
  int stage = 0;
  OpKind kind = OpKind::forward;
  Estimated share;
  double sustained_mhz = 0;                   ///< clock that the op runs at where the highest recorded one is requested
  int clocks = 0;                             ///< that were recorded
  ShareOrigin origin = ShareOrigin::assumed;  ///< `recorded` where the recording corrects the expectation
};

struct PredictedClocks {
  profile::FewClockFit fit;  ///< without models
  std::vector<TimeShare> shares;
};

/// Predicts every (stage, kind) of `measured` at each of `clocks_mhz` up to its highest recorded clock, from one
/// recorded clock or more and the power of a GPU; measured rows stay. With f the clock, but at most the clock that the
/// op sustains:
///   time   = u + v / f
///   energy = static power(f) x time + F + D V^2(f)
/// u, v, F and D are fitted to the recorded rows and the assumptions. The sustained clock is that of `sustained_mhz`,
/// measured at the requested clock; without one, all clocks of the recorded range count by their likelihood. Recorded
/// rows share the errors of the model, so that all rows of an op weigh as much as three. Throws InputError where the
/// profile has settings or a clock above the GPU's highest.
[[nodiscard]] PredictedClocks predict_clocks(const profile::StageProfile& measured, const GpuFile& file,
                                             std::span<const int> clocks_mhz,
                                             const std::map<profile::CellKey, double>& sustained_mhz = {},
                                             const ClockAssumptions& assumptions = {});

}  // namespace lowgear::power
