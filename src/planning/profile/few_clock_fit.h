#pragma once

#include <span>
#include <vector>

#include "base/core/op_kind.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// Fewest clocks of a (stage, kind) from which others are predicted: one less, and the power curve would pass through
/// whatever was measured.
inline constexpr int kMinMeasuredClocks = 4;

/// How one (stage, kind) depends on the clock. With f the effective clock, min(clock, throttle clock):
///   time  = a + b / f                                  a, b >= 0
///   power = p0 + p1 f + p2 max(0, f - transition)^2    p0, p1, p2 >= 0, so increasing and convex
/// `transition` is where the voltage begins to rise with the clock (arXiv:2607.00819 models GPU power as a linear and a
/// nonlinear part that meet in such a clock); it belongs to the GPU and is shared by all cells. Above the throttle
/// clock the power limit holds the GPU back: neither time nor power changes any more.
struct ClockModel {
  int stage = 0;
  OpKind kind = OpKind::forward;
  double fixed_time_s = 0;            ///< a
  double time_clock_s_mhz = 0;        ///< b
  double static_power_w = 0;          ///< p0
  double linear_power_w_per_mhz = 0;  ///< p1
  double quadratic_power_w_per_mhz2 = 0;
  double transition_mhz = 0;
  double throttle_mhz = 0;  ///< the highest measured clock where no plateau is seen

  [[nodiscard]] double time_s(double clock_mhz) const;
  [[nodiscard]] double power_w(double clock_mhz) const;
};

enum class RowOrigin { measured, predicted };

/// One row of a filled profile, with the estimate of its error.
struct FilledRow {
  int stage = 0;
  OpKind kind = OpKind::forward;
  Measurement value;
  RowOrigin origin = RowOrigin::measured;
  double time_error_s = 0;    ///< standard error of a prediction; 0 in measured rows, whose error is not known here
  double energy_error_j = 0;  ///< likewise
  bool is_throttled = false;  ///< above the throttle clock of its model
};

struct FewClockFit {
  std::vector<ClockModel> models;  ///< stage by stage
  std::vector<FilledRow> rows;     ///< stage by stage, highest clock first

  /// The rows as a profile.
  [[nodiscard]] StageProfile profile() const;
};

/// Predicts every (stage, kind) of `measured` at each of `clocks_mhz` at which it was not measured; measured rows stay
/// as they are. A prediction is the model's curve times a correction, linear in log(clock) between the neighbouring
/// measured clocks, by which measured rows differ from it: kriging with the model as trend and a Wiener process as
/// residual, whose variance, that of a Brownian bridge, gives the error. The variance of the process is estimated from
/// the increments of the residuals, in each cell and over all, the latter counting as much as two degrees of freedom.
///
/// The model is fitted by least squares on relative errors under its sign constraints; transition and throttle clock
/// are searched on a grid. Throws InputError when a cell has fewer than kMinMeasuredClocks clocks, the profile has
/// settings, or when a clock lies outside of those that were measured: nothing is extrapolated.
[[nodiscard]] FewClockFit fit_few_clocks(const StageProfile& measured, std::span<const int> clocks_mhz);

/// Those of `clocks_mhz` that fit_few_clocks can predict: from the highest of the lowest clocks that a (stage, kind)
/// was measured at, to the lowest of the highest. In the order given.
[[nodiscard]] std::vector<int> predictable_clocks(const StageProfile& measured, std::span<const int> clocks_mhz);

/// Which `count` of the supported clocks in [lowest_mhz, highest_mhz] to measure: both ends, and the rest as evenly
/// between them as there are supported clocks. Where power bends and where throttling sets in is not known beforehand,
/// and even spacing makes the widest unmeasured gap smallest. Highest first; all of them when there are no more than
/// `count`. Throws InputError when `count` is below kMinMeasuredClocks or fewer than two supported clocks are in the
/// range.
[[nodiscard]] std::vector<int> choose_clocks(std::span<const int> supported_mhz, int lowest_mhz, int highest_mhz,
                                             int count);

}  // namespace lowgear::profile
