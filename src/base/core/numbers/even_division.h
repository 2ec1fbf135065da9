#pragma once

#include <cstdint>
#include <vector>

namespace lowgear {

/// Costs of the elements of a sequence in any unit, and additional costs of its ends: a model's layers, its embedding
/// and its head.
struct SequenceCosts {
  double first = 0;  ///< in the part that has the first element
  std::vector<double> elements;
  double last = 0;  ///< in the part that has the last element
};

/// Divides a sequence into `parts` contiguous parts, none of them empty, so that the costliest part costs least; among
/// these divisions, takes the one with the least sum of the squares of its parts' costs. Exact, by dynamic programming,
/// in O(parts x elements^2). Part p has the elements [result[p], result[p + 1]). Throws InputError when there are fewer
/// elements than parts or a cost is negative or not finite.
[[nodiscard]] std::vector<std::int64_t> divide_evenly(const SequenceCosts& costs, int parts);

}  // namespace lowgear
