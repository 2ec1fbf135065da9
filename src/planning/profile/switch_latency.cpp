#include "planning/profile/switch_latency.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <vector>

#include "planning/profile/energy_regression.h"

namespace lowgear::profile {

namespace {

constexpr long long kFewestChanges = 4;
constexpr double kLeastTimeDifference = 0.03;
constexpr double kLargestError = 0.2;
constexpr double kLargestErrorS = 5e-3;
/// No GPU changes its clock that fast.
constexpr double kLeastLatencyS = 2e-3;
/// A unit that ran this share of its time at the clock before ran there to its end, but for noise.
constexpr double kWholeUnit = 0.95;
constexpr std::size_t kMostUnitsOfAChange = 16;
/// Of normal errors: the standard deviation over the median absolute deviation, and of a median over that of a mean.
constexpr double kDeviationOfMedianDeviation = 1.4826;
constexpr double kMedianError = 1.2533;

struct WeightedValue {
  double value = 0;
  double weight = 0;
};

/// `values` must not be empty.
double weighted_median(std::vector<WeightedValue> values) {
  std::ranges::sort(values, {}, &WeightedValue::value);
  const double half = std::accumulate(values.begin(), values.end(), 0.0,
                                      [](double sum, const WeightedValue& value) { return sum + value.weight; }) /
                      2;
  double sum = 0;
  for (const WeightedValue& value : values) {
    sum += value.weight;
    if (sum >= half) return value.value;
  }
  return values.back().value;
}

using SteadyTimes = std::map<CellKey, double>;

bool asks_for_a_clock(const RecordedUnit& unit) { return unit.iteration >= 0 && unit.clock_mhz != 0; }

/// Whether this unit asks for another clock than the one before it.
bool is_change(const std::vector<RecordedUnit>& units, std::size_t i) {
  return i > 0 && asks_for_a_clock(units[i - 1]) && asks_for_a_clock(units[i]) &&
         units[i].clock_mhz != units[i - 1].clock_mhz;
}

/// What units take at clocks that have settled, by stage, kind and clock.
SteadyTimes steady_times(std::span<const Recording> parts_of_rank) {
  std::map<CellKey, std::vector<WeightedValue>> times;
  for (const Recording& part : parts_of_rank) {
    for (std::size_t i = 0; i < part.units.size(); ++i) {
      const RecordedUnit& unit = part.units[i];
      if (unit.settling || !asks_for_a_clock(unit) || is_change(part.units, i)) continue;
      times[{unit.stage, unit.kind, unit.clock_mhz}].push_back({unit.end_s - unit.start_s, 1});
    }
  }
  SteadyTimes steady;
  for (auto& [key, values] : times) steady[key] = weighted_median(std::move(values));
  return steady;
}

/// What one change says: the latency, weighted by the share of time that its clocks differ by.
std::optional<WeightedValue> latency_of_change(const std::vector<RecordedUnit>& units, std::size_t change,
                                               const SteadyTimes& steady) {
  const int old_mhz = units[change - 1].clock_mhz;
  const std::size_t end = std::min(units.size(), change + kMostUnitsOfAChange);
  for (std::size_t i = change; i < end; ++i) {
    const RecordedUnit& unit = units[i];
    if (unit.clock_mhz != units[change].clock_mhz) return std::nullopt;
    const auto before = steady.find({unit.stage, unit.kind, old_mhz});
    const auto after = steady.find({unit.stage, unit.kind, unit.clock_mhz});
    if (before == steady.end() || after == steady.end() || !(before->second > 0)) return std::nullopt;
    if (before->second < kShortestUnitS) continue;  // shows nothing; the next unit does
    const double share = 1 - after->second / before->second;
    if (std::abs(share) < kLeastTimeDifference) return std::nullopt;
    const double at_old_s = (unit.end_s - unit.start_s - after->second) / share;
    if (at_old_s >= kWholeUnit * before->second) continue;
    return WeightedValue{unit.start_s - units[change].start_s + at_old_s, std::abs(share)};
  }
  return std::nullopt;
}

}  // namespace

std::string describe(const SwitchLatency& latency) {
  return fmt::format("clock changes take effect {:.1f} +-{:.1f} ms after the request ({} changes)",
                     latency.latency_s * 1e3, latency.error_s * 1e3, latency.changes);
}

std::optional<SwitchLatency> find_switch_latency(std::span<const Recording> ranks) {
  std::map<int, std::vector<Recording>> parts_of_rank;
  for (const Recording& recording : ranks) parts_of_rank[recording.rank].push_back(recording);
  std::vector<WeightedValue> latencies_s;
  for (const auto& [rank, parts] : parts_of_rank) {
    const SteadyTimes steady = steady_times(parts);
    for (const Recording& part : parts) {
      if (part.clock_lead_s > 0) continue;
      for (std::size_t i = 1; i < part.units.size(); ++i) {
        if (!is_change(part.units, i)) continue;
        if (const auto latency = latency_of_change(part.units, i, steady)) latencies_s.push_back(*latency);
      }
    }
  }
  SwitchLatency found;
  found.changes = static_cast<long long>(latencies_s.size());
  if (found.changes < kFewestChanges) return std::nullopt;
  const double median_s = weighted_median(latencies_s);
  std::vector<WeightedValue> deviations = latencies_s;
  for (WeightedValue& deviation : deviations) deviation.value = std::abs(deviation.value - median_s);
  found.error_s = kMedianError * kDeviationOfMedianDeviation * weighted_median(std::move(deviations)) /
                  std::sqrt(static_cast<double>(found.changes));
  found.latency_s = median_s;
  if (median_s < kLeastLatencyS) return std::nullopt;
  if (found.error_s > std::max(kLargestErrorS, kLargestError * found.latency_s)) return std::nullopt;
  return found;
}

namespace {

constexpr double kNsPerS = 1e9;

long long ns(double time_s, double origin_s) {
  // Added as whole numbers: a double has no room for both.
  return std::llround(origin_s * kNsPerS) + std::llround(time_s * kNsPerS);
}

}  // namespace

std::vector<ClockEvent> clock_events(const Recording& recording) {
  std::vector<ClockEvent> events;
  int clock_mhz = 0;
  for (const RecordedUnit& unit : recording.units) {
    if (unit.clock_mhz != clock_mhz) {
      if (clock_mhz != 0) events.back().end_s = unit.start_s;
      if (unit.clock_mhz != 0) events.push_back({unit.clock_mhz, unit.start_s, unit.end_s});
      clock_mhz = unit.clock_mhz;
    } else if (clock_mhz != 0) {
      events.back().end_s = unit.end_s;
    }
  }
  return events;
}

std::string freqevents_csv(const Recording& recording) {
  const double origin_s = recording.start_unix_s.value_or(0);
  std::string text = "freq,start,end\n";
  for (const ClockEvent& event : clock_events(recording)) {
    text += fmt::format("{},{},{}\n", event.clock_mhz, ns(event.start_s, origin_s), ns(event.end_s, origin_s));
  }
  return text;
}

}  // namespace lowgear::profile
