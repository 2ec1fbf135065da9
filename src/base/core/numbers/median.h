#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace lowgear {

/// The middle value; of an even number of values, the upper of the two, which is a measured one. `values` must not be
/// empty. Reorders them.
[[nodiscard]] inline double upper_median(std::span<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}
[[nodiscard]] inline double upper_median(std::vector<double> values) { return upper_median(std::span(values)); }

/// The middle value; of an even number of values, the mean of the two.
[[nodiscard]] inline double median(std::span<double> values) {
  const double upper = upper_median(values);
  if (values.size() % 2 == 1) return upper;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  return (upper + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace lowgear
