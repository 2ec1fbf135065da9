#include "report/experiment/run_validity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace lowgear::experiment {

void RunValidity::add(const StepValidity& step) {
  if (step.continued) earlier_ = earlier_ || now_;
  now_ = step.invalid;
  if (step.invalid) {
    ++marked_;
    last_marked_ = static_cast<std::int64_t>(times_s_.size());
  }
  simulated_ = simulated_ || step.simulated;
  times_s_.push_back(step.time_s);
}

/// Simulated GPUs notice only within kernels that the machine stands still. No clock makes a step so much longer.
bool RunValidity::stood_still() const {
  constexpr std::size_t kWarmUp = 2;
  constexpr double kLongStep = 8;  // medians
  constexpr double kMostLost = 0.02;
  if (!simulated_ || times_s_.size() <= kWarmUp) return false;
  std::vector<double> times_s(times_s_.begin() + kWarmUp, times_s_.end());
  std::ranges::nth_element(times_s, times_s.begin() + static_cast<std::ptrdiff_t>(times_s.size() / 2));
  const double median_s = times_s[times_s.size() / 2];
  double lost_s = 0;
  double sum_s = 0;
  for (const double time_s : times_s) {
    sum_s += time_s;
    if (time_s > kLongStep * median_s) lost_s += time_s - median_s;
  }
  return lost_s > kMostLost * sum_s;
}

std::string RunValidity::reason() const {
  if (now_ || earlier_) {
    return "the real computation took longer than the kernels of the simulated GPUs; times and energies are "
           "meaningless";
  }
  if (stood_still()) return "the machine stood still for a good part of the run; times and energies are meaningless";
  return {};
}

std::string RunValidity::note() const {
  if (!last_marked_ || invalid()) return {};
  return fmt::format(
      "{} of {} steps are marked invalid, the last of them is the {}. from the first: up to there the real computation "
      "took longer than the kernels of the simulated GPUs; over the whole run it did not",
      marked_, times_s_.size(), *last_marked_ + 1);
}

}  // namespace lowgear::experiment
