#pragma once

#include <vector>

namespace lowgear::profile {

/// Time of an op at one clock.
struct ClockTime {
  int clock_mhz = 0;
  double time_s = 0;
  double error_s = 0;  ///< standard error; 0 where it is not known
};

/// The times, with those repaired that rise with the clock by no more than their errors explain: noise makes a clock
/// measure slower than the next lower one, and a plan would then switch between clocks without saving time. Neighbours
/// that are out of order become their mean, weighted by the inverse squares of the errors (pool adjacent violators;
/// Ayer et al., Ann. Math. Stat. 26, 1955), and get its error. Errors count as 0.3 % of the time at least: the units of
/// a clock run one after the other, so that whatever drifts shifts all of them. What differs by more than three
/// standard errors is left as it is: a power cap may well make a higher clock slower. Neither are times changed whose
/// error is not known. In the order given.
[[nodiscard]] std::vector<ClockTime> monotone_times(std::vector<ClockTime> times);

}  // namespace lowgear::profile
