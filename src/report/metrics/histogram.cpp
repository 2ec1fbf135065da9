#include "report/metrics/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace lowgear::metrics {

Histogram::Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1, 0) {}

void Histogram::observe(double value) {
  if (!std::isfinite(value)) return;
  // A bucket holds what is at most its bound.
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(bucket)];
  ++count_;
  sum_ += value;
}

std::vector<double> geometric_bounds(double first, double factor, int count) {
  std::vector<double> bounds;
  bounds.reserve(static_cast<std::size_t>(std::max(count, 0)));
  for (int i = 0; i < count; ++i) bounds.push_back(first * std::pow(factor, i));
  return bounds;
}

}  // namespace lowgear::metrics
