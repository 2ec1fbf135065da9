#include "planning/profile/latency/clock_events.h"

#include <gtest/gtest.h>

namespace lowgear::profile {
namespace {

Recording recording_of(std::initializer_list<RecordedUnit> units) {
  Recording recording;
  recording.units = units;
  return recording;
}

RecordedUnit unit_at(double start_s, double end_s, int clock_mhz) {
  return {.start_s = start_s, .end_s = end_s, .clock_mhz = clock_mhz};
}

TEST(ClockEvents, LastUntilTheNextClockIsRequested) {
  const Recording recording = recording_of(
      {unit_at(1, 2, 1410), unit_at(2.5, 3, 1410), unit_at(4, 5, 900), unit_at(6, 7, 0), unit_at(8, 9, 900)});
  EXPECT_EQ(freqevents_csv(recording),
            "freq,start,end\n1410,1000000000,4000000000\n900,4000000000,6000000000\n900,8000000000,9000000000\n");
}

TEST(ClockEvents, AreSince1970WhereThatIsKnown) {
  Recording recording = recording_of({unit_at(0.25, 0.5, 1410)});
  recording.start_unix_s = 1'700'000'000;
  EXPECT_EQ(freqevents_csv(recording), "freq,start,end\n1410,1700000000250000000,1700000000500000000\n");
}

TEST(ClockEvents, OfNoRequestAreNone) {
  EXPECT_TRUE(clock_events(recording_of({unit_at(0, 1, 0), unit_at(1, 2, 0)})).empty());
  EXPECT_TRUE(clock_events({}).empty());
}

}  // namespace
}  // namespace lowgear::profile
