#pragma once

#include <string>
#include <vector>

#include "planning/profile/recording.h"

namespace lowgear::profile {

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

}  // namespace lowgear::profile
