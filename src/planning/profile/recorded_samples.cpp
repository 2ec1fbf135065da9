#include "planning/profile/recorded_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "base/core/numbers/median.h"

namespace lowgear::profile {
namespace {

/// A clock is in force, and a reading shows it, at the latest so long after it was asked for.
constexpr double kSettledS = 0.5;
/// Share by which a reading may be off: clocks come in steps of 15 MHz, and a GPU that is held back is said elsewhere.
constexpr double kClockError = 0.05;
constexpr std::size_t kFewestSamples = 5;
/// Units without samples for longer, or for a larger share of the recording.
constexpr double kUncoveredS = 1;
constexpr double kUncoveredShare = 0.02;

/// Readings of the clock by the one that was asked for, where that has been the same for long enough.
std::map<int, std::vector<double>> settled_readings(const Recording& recording) {
  std::map<int, std::vector<double>> readings;
  auto unit = recording.units.begin();
  double since_s = 0;
  for (const EnergySample& sample : recording.samples) {
    for (; unit != recording.units.end() && unit->end_s < sample.time_s; ++unit) {
      const auto next = std::next(unit);
      const bool changes = next != recording.units.end() && next->clock_mhz != unit->clock_mhz;
      if (changes) since_s = next->start_s;
    }
    if (unit == recording.units.end()) break;
    if (!sample.sm_mhz || unit->clock_mhz == 0 || sample.time_s < unit->start_s) continue;
    if (sample.time_s >= since_s + kSettledS) readings[unit->clock_mhz].push_back(*sample.sm_mhz);
  }
  return readings;
}

void add_clocks(const Recording& recording, std::vector<std::string>& doubts) {
  std::string first;
  std::size_t differing = 0;
  const auto all = settled_readings(recording);
  for (const auto& [clock_mhz, readings] : all) {
    if (readings.size() < kFewestSamples) continue;
    const double shown_mhz = upper_median(readings);
    if (std::abs(shown_mhz - clock_mhz) <= kClockError * clock_mhz) continue;
    ++differing;
    if (first.empty()) {
      first = fmt::format("units ask for {} MHz, and the GPU reports {:.0f} MHz meanwhile (median of {} readings)",
                          clock_mhz, shown_mhz, readings.size());
    }
  }
  if (differing == 0) return;
  doubts.push_back(
      fmt::format("{}: {}{}: the clock was not in force, or units.csv has another one", recording.source, first,
                  differing > 1 ? fmt::format("; so it is with {} of {} clocks", differing, all.size()) : ""));
}

/// Units of times that lie before the first sample, after the last one, or between two that are far apart.
void add_uncovered(const Recording& recording, std::vector<std::string>& doubts) {
  if (recording.units.empty() || recording.samples.size() < kFewestSamples) return;
  const double begin_s = recording.units.front().start_s;
  const double end_s = recording.units.back().end_s;
  std::vector<double> times_s{begin_s};
  for (const EnergySample& sample : recording.samples) {
    if (sample.time_s > begin_s && sample.time_s < end_s) times_s.push_back(sample.time_s);
  }
  times_s.push_back(end_s);
  double uncovered_s = 0;
  double longest_s = 0;
  double longest_from_s = 0;
  for (std::size_t i = 1; i < times_s.size(); ++i) {
    const double gap_s = times_s[i] - times_s[i - 1];
    if (gap_s <= kUncoveredS) continue;
    uncovered_s += gap_s;
    if (gap_s > longest_s) longest_from_s = times_s[i - 1];
    longest_s = std::max(longest_s, gap_s);
  }
  if (uncovered_s <= kUncoveredShare * (end_s - begin_s)) return;
  doubts.push_back(
      fmt::format("{}/energy.csv: has no samples for {:.1f} of the {:.1f} s in which units ran, the longest time from "
                  "{:.1f} s on for {:.1f} s: samples were lost, or come from another clock or job",
                  recording.source, uncovered_s, end_s - begin_s, longest_from_s, longest_s));
}

}  // namespace

std::vector<std::string> sample_doubts(const Recording& recording) {
  std::vector<std::string> doubts;
  add_clocks(recording, doubts);
  add_uncovered(recording, doubts);
  return doubts;
}

}  // namespace lowgear::profile
