#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace lowgear::api {

/// Parts of an iteration, equally long, that its power is stated for; and the steps that a delay is chosen in.
inline constexpr std::size_t kCycleParts = 64;
/// Iterations whose times differ by at most this keep their phases for some tens of iterations: those jobs can be
/// staggered.
inline constexpr double kSameTimePct = 0.1;

/// The power of all GPUs of a job over one iteration, which it repeats: *planned*.
struct JobCycle {
  double time_s = 0;                             ///< of an iteration
  std::array<double, kCycleParts> power_w = {};  ///< mean of each part
  friend bool operator==(const JobCycle&, const JobCycle&) = default;
};

/// The cycle with `waiting_w` after it, until `time_s` have passed: gradients are reduced and the optimizer steps while
/// the pipeline's GPUs wait. As it is where `time_s` is not longer. Keeps the energy of the cycle. Throws InputError
/// unless the cycle's time and powers are finite, the time above 0 and the powers not below 0.
[[nodiscard]] JobCycle extended(const JobCycle& cycle, double time_s, double waiting_w);

/// Highest and lowest power of all jobs together, at any time.
struct PowerRange {
  double peak_w = 0;
  double least_w = 0;
  [[nodiscard]] double swing_w() const { return peak_w - least_w; }
};

struct Stagger {
  std::vector<double> delay_s;  ///< by job, of one iteration, once
  PowerRange together;          ///< all begin their iterations at the same time
  PowerRange staggered;         ///< with the delays
};

/// Delays for which the swing of all jobs together, highest less lowest power, is small: never larger than without.
///
/// Jobs whose iterations take the same time (`kSameTimePct`) keep the phases that they are given. Those of other times
/// drift against each other, so that sooner or later all their peaks meet: the ranges of such groups add up, and no
/// delay changes that. Within a group, jobs are placed one after the other, those of the largest swing first, where the
/// sum is most even, and are then moved one at a time, or in small groups two, while that makes the swing smaller. A
/// heuristic: the least swing is a hard problem (with two levels of power it is one of packing).
///
/// `most_share` bounds each delay, as a share of an iteration in [0, 1). Throws InputError when it is outside, or a
/// cycle is as `extended` refuses it.
[[nodiscard]] Stagger stagger_jobs(std::span<const JobCycle> jobs, double most_share);

}  // namespace lowgear::api
