#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lowgear::server {

/// A job whose iterations may be delayed, one by one, so that it keeps a phase against others.
struct PhasedJob {
  double begin_s = 0;       ///< of the first iteration that a delay can act on, predicted; all jobs by one clock
  double time_s = 0;        ///< from begin to begin of its iterations, without delays
  double most_delay_s = 0;  ///< of one iteration
  double offset_s = 0;      ///< how long after the others' common begin its own should be
};

/// How jobs come to their phases and keep them.
struct Phases {
  double period_s = 0;          ///< of all: the longest iteration
  std::vector<double> error_s;  ///< by job: delays that are still needed, in [0, period)
  std::vector<double> delay_s;  ///< by job: of each of the next iterations
};

/// Jobs that can keep one period, as indices: by delays of at most `most_delay_s` an iteration all take as long as the
/// longest of them, which is named first. Every job is in one group, those that no other can follow alone.
[[nodiscard]] std::vector<std::vector<std::size_t>> same_period_groups(std::span<const PhasedJob> jobs);

/// Delays of the next `iterations` (at least 1) of each job. A job can wait for others and never catch up. So the
/// phases are against each other, and not against a clock: the job for which all come to their offsets in the fewest
/// iterations does not wait, and the others wait for it. Each also makes up for what its iterations are shorter than
/// the period.
///
/// `jobs` are one group of `same_period_groups`. Throws InputError when it is empty, a time is not finite or not above
/// 0, or a delay is below 0.
[[nodiscard]] Phases keep_phases(std::span<const PhasedJob> jobs, int iterations);

}  // namespace lowgear::server
