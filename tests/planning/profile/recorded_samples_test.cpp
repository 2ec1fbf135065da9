#include "planning/profile/recorded_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lowgear::profile {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Units of 0.1 s, ten seconds at each clock, and 20 samples a second that show the clock 30 ms after it was asked for.
Recording with_samples(const std::vector<int>& clocks_mhz) {
  Recording recording;
  recording.source = "r";
  for (std::size_t i = 0; i < clocks_mhz.size() * 100; ++i) {
    const double start_s = 1 + 0.1 * static_cast<double>(i);
    recording.units.push_back({static_cast<int>(i / 10), 0, OpKind::forward, static_cast<int>(i % 10), start_s,
                               start_s + 0.09, clocks_mhz[i / 100]});
  }
  const double end_s = recording.units.back().end_s + 1;
  for (double time_s = 0; time_s < end_s; time_s += 0.05) {
    EnergySample sample;
    sample.time_s = time_s;
    const int place = static_cast<int>((time_s - 1.03) / 10);
    sample.sm_mhz = clocks_mhz[static_cast<std::size_t>(std::clamp(place, 0, static_cast<int>(clocks_mhz.size()) - 1))];
    recording.samples.push_back(sample);
  }
  return recording;
}

TEST(SampleDoubts, AreNoneWhereUnitsAndReadingsAgree) {
  EXPECT_THAT(sample_doubts(with_samples({1400, 1000, 600})), IsEmpty());
  Recording short_units = with_samples({1400, 1000, 600});
  for (std::size_t i = 0; i < short_units.units.size(); i += 2) short_units.units[i].clock_mhz = 1200;
  EXPECT_THAT(sample_doubts(short_units), IsEmpty()) << "no clock is in force for long enough to be read";
}

TEST(SampleDoubts, NameClocksThatTheGpuDoesNotReport) {
  Recording recording = with_samples({1400, 1000, 600});
  for (RecordedUnit& unit : recording.units) {
    if (unit.clock_mhz == 1000) unit.clock_mhz = 1200;
  }
  EXPECT_THAT(sample_doubts(recording),
              ElementsAre(AllOf(HasSubstr("units ask for 1200 MHz"), HasSubstr("the GPU reports 1000 MHz meanwhile"))));
  for (RecordedUnit& unit : recording.units) unit.clock_mhz = unit.clock_mhz * 11 / 10;
  EXPECT_THAT(sample_doubts(recording), ElementsAre(HasSubstr("so it is with 3 of 3 clocks")));
}

TEST(SampleDoubts, NameTimesOfUnitsWithoutSamples) {
  Recording recording = with_samples({1400, 1000, 600});
  const Recording whole = recording;
  std::erase_if(recording.samples, [](const EnergySample& sample) { return sample.time_s > 12 && sample.time_s < 15; });
  EXPECT_THAT(sample_doubts(recording), ElementsAre(HasSubstr("has no samples for 3.1 of the 30.0 s")));
  for (const double shift_s : {-5.0, 5.0}) {
    recording = whole;
    for (EnergySample& sample : recording.samples) {
      sample.time_s += shift_s;
      sample.sm_mhz.reset();
    }
    EXPECT_THAT(sample_doubts(recording), ElementsAre(HasSubstr("come from another clock or job"))) << shift_s;
  }
}

}  // namespace
}  // namespace lowgear::profile
