#pragma once

#include <span>
#include <vector>

#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// Most gaps that a summary lists one by one.
inline constexpr int kMaxListedClocks = 100;

/// Quality of the measurements of one (stage, kind), to judge a plan made from them: a row of `lowgear show`.
struct OpProfileSummary {
  int stage = 0;
  OpKind kind = OpKind::forward;
  int count = 0;  ///< measurements
  int min_clock_mhz = 0;
  int max_clock_mhz = 0;
  /// The most frequent distance of neighbouring clocks, where all distances are multiples of it; 0: clocks are spaced
  /// unevenly, or there is one.
  int clock_step_mhz = 0;
  /// Gaps: clocks on that step, counted down from the highest, that are not there; highest first, at most
  /// kMaxListedClocks of them.
  std::vector<int> missing_clocks_mhz;
  int missing_count = 0;                   ///< all of the gaps
  std::vector<int> not_faster_clocks_mhz;  ///< than the next lower clock: a power limit, or noise
  int pareto_count = 0;                    ///< options left on effective energy
  int hull_count = 0;                      ///< of these, on the lower convex hull
  double fastest_time_s = 0;               ///< of the Pareto set
  double slowest_time_s = 0;               ///< of the Pareto set: slower clocks cost more than they save
};

/// One row per (stage, kind) that the profile has, stage by stage. Throws InputError unless `blocking_power_w` has one
/// value per stage.
[[nodiscard]] std::vector<OpProfileSummary> summarise(const StageProfile& profile,
                                                      std::span<const double> blocking_power_w);

}  // namespace lowgear::profile
