#pragma once

#include <span>
#include <vector>

namespace lowgear::workflow {

/// Highest power of one GPU that is accepted.
inline constexpr double kMaxGpuPowerW = 1e5;
/// Shorter than this no level of power counts: times of events that are one and the same differ by rounding.
inline constexpr double kShortestPowerLevelS = 1e-6;

/// Power from a time on, until the next step.
struct PowerStep {
  double start_s = 0;
  double power_w = 0;
};

/// Power over one iteration. The first step begins at 0.
struct PowerTrace {
  std::vector<PowerStep> steps;
  double end_s = 0;
};

/// `count` GPUs that all draw the same.
struct PowerShare {
  const PowerTrace* trace = nullptr;
  double count = 1;
};

/// The sum, exact to a microwatt: a sweep over the steps of all. Steps less than kShortestPowerLevelS apart become one.
/// The traces must have the same end.
[[nodiscard]] PowerTrace sum(std::span<const PowerShare> shares);

[[nodiscard]] double peak_w(const PowerTrace& trace);
[[nodiscard]] double least_w(const PowerTrace& trace);
/// Mean over [from_s, to_s], which is within the trace and not empty.
[[nodiscard]] double mean_w(const PowerTrace& trace, double from_s, double to_s);
[[nodiscard]] double mean_w(const PowerTrace& trace);

}  // namespace lowgear::workflow
