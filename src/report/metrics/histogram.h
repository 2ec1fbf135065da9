#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lowgear::metrics {

/// How many observations were how large. A value; one thread at a time.
class Histogram {
 public:
  /// `bounds`: upper ends of the buckets, ascending; one more bucket takes what is above.
  explicit Histogram(std::vector<double> bounds);

  /// Counts a value. What is no finite number is not counted.
  void observe(double value);

  [[nodiscard]] std::span<const double> bounds() const { return bounds_; }
  /// By bucket, one more than there are bounds; each counts only its own.
  [[nodiscard]] std::span<const std::uint64_t> counts() const { return counts_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

/// `first`, `first` x `factor`, ...: `count` bounds.
[[nodiscard]] std::vector<double> geometric_bounds(double first, double factor, int count);

}  // namespace lowgear::metrics
