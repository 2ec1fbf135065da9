#pragma once

#include <optional>
#include <vector>

namespace lowgear::workflow {

/// The deadlines of plans as a user states them: at most one of the four. None: several plans.
struct Deadlines {
  std::optional<double> deadline_s = {};        ///< one plan, for this iteration time
  std::optional<double> slowdown_pct = {};      ///< one plan, this many per cent after T_min
  std::optional<double> straggler_factor = {};  ///< one plan, as late as a straggler: this many times T_min
  std::optional<int> plans = {};                ///< number of plans, at least 1
};

/// The one deadline that was asked for, in seconds; empty when none was. `fastest_s` is T_min and `slowest_s` T*.
[[nodiscard]] std::optional<double> single_deadline_s(const Deadlines& deadlines, double fastest_s, double slowest_s);

/// The deadlines to plan for: the one that was asked for, or `plans` (20) of them evenly from T_min to T*, both
/// included; one where they are the same.
[[nodiscard]] std::vector<double> deadlines_s(const Deadlines& deadlines, double fastest_s, double slowest_s);

}  // namespace lowgear::workflow
