#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// A stage or a kind of a profile that contradicts the others.
struct GroupFinding {
  std::string what;         ///< the contradiction, with clocks and values
  std::string_view advice;  ///< what to do
  int line = 0;             ///< of the row that it begins with; 0: none
};

/// Of an even number the geometric mean of both in the middle: one wrong value of two is not that of all. `values` must
/// not be empty.
[[nodiscard]] double median_of(std::vector<double> values);

/// Powers of a profile's rows, energy by time, in W; all 0 where it has none.
struct DrawnPower {
  double median_w = 0;
  double majority_w = 0;  ///< more than half of the rows draw this or more
  double lowest_w = 0;
  double highest_w = 0;
};
[[nodiscard]] DrawnPower drawn_power(const StageProfile& profile);

/// Contradictions between stages or kinds. No single row shows them, since the rows of each agree, as when all are in
/// other units:
/// - stages whose forwards or backwards take several times as long, or as short, as those of the others;
/// - backwards that take many times as long as the forwards of their stage, in all stages, or a fraction of them. A
///   first stage may be frozen but for a few layers, so that its backwards are short. Nor may this ratio be far from
///   that of the other stages;
/// - kinds whose power at the same clocks is far from that of the other stages, and backwards from that of forwards;
/// - ops without the highest clock of most others, or without many of theirs;
/// - kinds that state the same twice: a backward and its halves, a recomputation and its forward, a recomputing
///   backward and its parts.
/// Halves of a backward can be nothing (the first stage's input gradient), and are only compared as a whole.
[[nodiscard]] std::vector<GroupFinding> check_groups(const StageProfile& profile);

}  // namespace lowgear::profile
