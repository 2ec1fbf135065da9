#include "planning/workflow/power/power_trace.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace lowgear::workflow {
namespace {

/// Whole microwatts, so that a long sweep adds up no rounding errors; 2^63 of them are 9 TW.
constexpr double kUwPerWatt = 1e6;

struct Event {
  double time_s = 0;
  std::int64_t change_uw = 0;
};

}  // namespace

PowerTrace sum(std::span<const PowerShare> shares) {
  std::vector<Event> events;
  PowerTrace total;
  for (const PowerShare& share : shares) {
    std::int64_t before_uw = 0;
    for (const PowerStep& step : share.trace->steps) {
      const std::int64_t power_uw = std::llround(step.power_w * share.count * kUwPerWatt);
      if (power_uw != before_uw) events.push_back({step.start_s, power_uw - before_uw});
      before_uw = power_uw;
    }
    assert(total.end_s == 0 || total.end_s == share.trace->end_s);
    total.end_s = share.trace->end_s;
  }
  std::ranges::sort(events, {}, &Event::time_s);
  std::int64_t power_uw = 0;
  for (std::size_t i = 0; i < events.size();) {
    const double start_s = events[i].time_s;
    for (; i < events.size() && events[i].time_s < start_s + kShortestPowerLevelS; ++i) power_uw += events[i].change_uw;
    total.steps.push_back({start_s, static_cast<double>(power_uw) / kUwPerWatt});
  }
  if (total.steps.empty()) total.steps.push_back({});
  return total;
}

double peak_w(const PowerTrace& trace) {
  return std::ranges::max_element(trace.steps, {}, &PowerStep::power_w)->power_w;
}

double least_w(const PowerTrace& trace) {
  return std::ranges::min_element(trace.steps, {}, &PowerStep::power_w)->power_w;
}

double mean_w(const PowerTrace& trace, double from_s, double to_s) {
  double energy_j = 0;
  for (std::size_t i = 0; i < trace.steps.size(); ++i) {
    const double end_s = i + 1 < trace.steps.size() ? trace.steps[i + 1].start_s : trace.end_s;
    const double within_s = std::min(end_s, to_s) - std::max(trace.steps[i].start_s, from_s);
    energy_j += trace.steps[i].power_w * std::max(0.0, within_s);
  }
  return energy_j / (to_s - from_s);
}

double mean_w(const PowerTrace& trace) { return mean_w(trace, 0, trace.end_s); }

}  // namespace lowgear::workflow
