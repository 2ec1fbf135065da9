#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planning/planner/frontier/frontier.h"
#include "planning/planner/planners/rounding.h"

namespace lowgear::planner {

/// Discrete plans of one pipeline that no mixture of others beats: the lower convex hull of (makespan, energy).
///
/// A good plan for a deadline between two of them is one plan up to a moment of the iteration and the other from there
/// on. That matters where the clocks that exist are far apart: rounding each op for itself then loses per cents,
/// because ops that wait for each other every microbatch cannot save time up until it is enough for a whole step, while
/// two stretches of the iteration can each run at a rhythm that fits existing clocks exactly.
class PlanLibrary {
 public:
  explicit PlanLibrary(PowerNw blocking_power_nw) : blocking_power_nw_(blocking_power_nw) {}

  /// Adds a plan unless others beat it.
  void add(DiscretePlan plan);
  /// Fastest first; makespans rise and energies fall.
  [[nodiscard]] std::span<const DiscretePlan> plans() const { return plans_; }

  /// The plan of least energy among those of at most this makespan; null when there is none. Valid until the next
  /// `add`.
  [[nodiscard]] const DiscretePlan* best_within(TimePs deadline_ps) const;

  /// Plans for a deadline, each made of one plan that keeps it and one that does not: the slow one's clocks for as many
  /// ops as the deadline allows, counted from the start of the iteration and from its end. Tries the `reach` nearest
  /// plans on either side. `order` holds the ops in the order in which they run, each after all that it waits for.
  /// Returns the best; none when the deadline is outside the library.
  [[nodiscard]] std::optional<DiscretePlan> splice(Rounder& rounder, std::span<const std::int32_t> order,
                                                   TimePs deadline_ps, std::size_t reach) const;

 private:
  using Position = std::vector<DiscretePlan>::const_iterator;
  [[nodiscard]] Position first_slower_than(TimePs deadline_ps) const;

  PowerNw blocking_power_nw_;
  std::vector<DiscretePlan> plans_;
};

}  // namespace lowgear::planner
