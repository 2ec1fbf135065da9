#pragma once

#include <optional>
#include <span>

namespace lowgear::experiment {

/// How sure intervals are.
inline constexpr double kConfidence = 0.95;

/// A mean with its confidence interval.
struct Interval {
  double mean = 0;
  struct Range {
    double low = 0;
    double high = 0;
  };
  std::optional<Range> range;  ///< empty when there are too few values for one
  int count = 0;               ///< of values; of pairs; of those of the smaller of two groups
};

/// Mean of the values and Student's interval around it: mean +- t s / sqrt(n) with n - 1 degrees of freedom. Empty
/// without values.
[[nodiscard]] std::optional<Interval> mean_interval(std::span<const double> values);

/// By how much the values exceed those of the baseline, in per cent of them, from the means of their logarithms: the
/// ratio of the geometric means, which is the same whichever of the two is the baseline. Empty without values, or where
/// one is not positive.
///
/// Paired: `values[i]` and `baseline[i]` share the conditions that vary between pairs (seed, time of day); the interval
/// is Student's of the differences. Otherwise it is Welch's (1947), which assumes no equal variances.
[[nodiscard]] std::optional<Interval> paired_difference_pct(std::span<const double> values,
                                                            std::span<const double> baseline);
[[nodiscard]] std::optional<Interval> difference_pct(std::span<const double> values, std::span<const double> baseline);

}  // namespace lowgear::experiment
