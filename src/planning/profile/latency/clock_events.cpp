#include "planning/profile/latency/clock_events.h"

#include <fmt/format.h>

#include <cmath>

namespace lowgear::profile {
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
