#include "planning/profile/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/core/error.h"
#include "planning/profile/options.h"

namespace lowgear::profile {
namespace {

/// The most frequent distance of neighbouring clocks, of equally frequent ones the smallest; 0 where another distance
/// is no multiple of it, and with fewer than two clocks.
int clock_step_mhz(std::span<const Measurement> measurements) {
  std::map<int, int> count_of_step;
  for (std::size_t i = 1; i < measurements.size(); ++i) {
    const int distance = measurements[i - 1].clock_mhz - measurements[i].clock_mhz;
    if (distance > 0) ++count_of_step[distance];  // settings of one clock follow each other
  }
  int step = 0;
  int most = 0;
  for (const auto& [distance, count] : count_of_step) {
    if (count <= most) continue;
    step = distance;
    most = count;
  }
  const auto is_multiple = [step](const auto& each) { return each.first % step == 0; };
  return std::ranges::all_of(count_of_step, is_multiple) ? step : 0;
}

void find_gaps(std::span<const Measurement> measurements, OpProfileSummary& summary) {
  if (summary.clock_step_mhz == 0) return;
  std::size_t next = 0;
  for (int clock = summary.max_clock_mhz; clock >= summary.min_clock_mhz; clock -= summary.clock_step_mhz) {
    while (next < measurements.size() && measurements[next].clock_mhz > clock) ++next;
    if (next < measurements.size() && measurements[next].clock_mhz == clock) continue;
    ++summary.missing_count;
    if (summary.missing_count <= kMaxListedClocks) summary.missing_clocks_mhz.push_back(clock);
  }
}

OpProfileSummary summarise_op(int stage, OpKind kind, std::span<const Measurement> measurements,
                              double blocking_power_w) {
  OpProfileSummary summary;
  summary.stage = stage;
  summary.kind = kind;
  summary.count = static_cast<int>(measurements.size());
  summary.max_clock_mhz = measurements.front().clock_mhz;
  summary.min_clock_mhz = measurements.back().clock_mhz;
  summary.clock_step_mhz = clock_step_mhz(measurements);
  find_gaps(measurements, summary);
  const Measurement* higher = &measurements.front();  // at its fastest setting
  for (const Measurement& row : measurements) {
    if (row.clock_mhz == higher->clock_mhz) continue;
    if (higher->time_s >= row.time_s) summary.not_faster_clocks_mhz.push_back(higher->clock_mhz);
    higher = &row;
  }
  const std::vector<Option> options = pareto_options(measurements, blocking_power_w);
  summary.pareto_count = static_cast<int>(options.size());
  summary.hull_count = static_cast<int>(lower_convex_hull(options).size());
  summary.fastest_time_s = options.front().time_s;
  summary.slowest_time_s = options.back().time_s;
  return summary;
}

}  // namespace

std::vector<OpProfileSummary> summarise(const StageProfile& profile, std::span<const double> blocking_power_w) {
  if (static_cast<int>(blocking_power_w.size()) != profile.stages()) {
    throw InputError(fmt::format("the profile has {} stages and blocking power is given for {}", profile.stages(),
                                 blocking_power_w.size()));
  }
  std::vector<OpProfileSummary> summaries;
  for (const auto& [stage, kind, measurements] : profile.ops()) {
    summaries.push_back(summarise_op(stage, kind, measurements, blocking_power_w[static_cast<std::size_t>(stage)]));
  }
  return summaries;
}

}  // namespace lowgear::profile
