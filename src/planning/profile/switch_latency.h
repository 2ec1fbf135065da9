#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planning/profile/recording.h"

namespace lowgear::profile {

/// The switch latency that is assumed where none is stated: that of an A100.
inline constexpr double kAssumedSwitchLatencyS = 0.025;

/// How late a clock change takes effect, from the unit that asks for it.
struct SwitchLatency {
  double latency_s = 0;
  double error_s = 0;     ///< standard error
  long long changes = 0;  ///< that it was seen in
};

/// `clock changes take effect 25.1 +-0.4 ms after they are asked for (22 changes)`
[[nodiscard]] std::string describe(const SwitchLatency& latency);

/// The switch latency that recordings of the client library show, whose units ask for their clock as they begin. A unit
/// that begins with a change takes T = L + (1 - L / t_old) t_new, with t_old and t_new what it takes at the clock
/// before and at its own; so L = (T - t_new) / (1 - t_new / t_old). Where a whole unit runs at the clock before, the
/// change is looked for in those that follow. t_old and t_new are the medians of this rank's units that no change
/// precedes. The result is the median over all changes, each weighted by how much its two clocks differ in time.
///
/// Recordings with clocks that were requested ahead (`clock_lead_s`) show what remains of the latency, and are left
/// out. Empty when fewer than four changes show it (t_old and t_new known, and 3 % apart), or it is known to worse than
/// 5 ms and 20 %; also below 2 ms, which no GPU has. `ranks`: recordings of any ranks and parts.
[[nodiscard]] std::optional<SwitchLatency> find_switch_latency(std::span<const Recording> ranks);

/// A time in which a rank requested one SM clock.
struct ClockEvent {
  int clock_mhz = 0;
  double start_s = 0;  ///< on the recording's clock: of the first unit that requested it
  double end_s = 0;    ///< when the next clock was requested; of the last event, when its last unit ended
};

/// The clock changes of a recording, in the order of time. Units for which no clock was requested end the event before
/// them and make none.
[[nodiscard]] std::vector<ClockEvent> clock_events(const Recording& recording);

/// The CSV that Perseus' client writes as `N.freqevents.csv`: `freq,start,end`, in MHz and nanoseconds since 1970, or
/// since the recording began where that is not known. Perseus writes when it called the driver, this when a unit
/// requested the clock from the agent.
[[nodiscard]] std::string freqevents_csv(const Recording& recording);

/// Largest time until a clock change takes effect that is accepted, in seconds.
inline constexpr double kMaxSwitchLatencyS = 1000;

}  // namespace lowgear::profile
