#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace lowgear {

/// The value in the middle, of an even number the upper of the two: one that was measured. `values` must not be empty,
/// and change their order.
[[nodiscard]] inline double upper_median(std::span<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}
[[nodiscard]] inline double upper_median(std::vector<double> values) { return upper_median(std::span(values)); }

/// Of an even number the mean of the two.
[[nodiscard]] inline double median(std::span<double> values) {
  const double upper = upper_median(values);
  if (values.size() % 2 == 1) return upper;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  return (upper + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace lowgear
