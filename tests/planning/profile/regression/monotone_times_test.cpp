#include "planning/profile/regression/monotone_times.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace lowgear::profile {
namespace {

using ::testing::ElementsAre;

std::vector<double> times_s(const std::vector<ClockTime>& times) {
  std::vector<double> list;
  for (const ClockTime& time : times) list.push_back(time.time_s);
  return list;
}

TEST(MonotoneTimes, KeepsTimesThatFallWithTheClock) {
  EXPECT_THAT(times_s(monotone_times({{1410, 0.10, 0.001}, {1395, 0.10, 0.001}, {1200, 0.12, 0.001}})),
              ElementsAre(0.10, 0.10, 0.12));
  EXPECT_TRUE(monotone_times({}).empty());
}

TEST(MonotoneTimes, GivesClocksThatAreOutOfOrderByNoiseTheirWeightedMean) {
  // Weights of 1 and 4.
  const std::vector<ClockTime> repaired =
      monotone_times({{1410, 0.1010, 0.0008}, {1395, 0.1000, 0.0004}, {1200, 0.1200, 0.0005}});
  EXPECT_NEAR(repaired[0].time_s, 0.1002, 1e-12);
  EXPECT_EQ(repaired[0].time_s, repaired[1].time_s);
  EXPECT_NEAR(repaired[0].error_s, 0.0008 / std::sqrt(5), 1e-12);
  EXPECT_EQ(repaired[2].time_s, 0.1200);
  EXPECT_EQ(repaired[2].error_s, 0.0005);
}

TEST(MonotoneTimes, PoolsAsFarAsThereAreViolations) {
  const std::vector<ClockTime> repaired =
      monotone_times({{1410, 0.1010, 0.001}, {1395, 0.1020, 0.001}, {1380, 0.0990, 0.001}, {1365, 0.1030, 0.001}});
  EXPECT_NEAR(repaired[0].time_s, 302.0 / 3000, 1e-12);
  EXPECT_EQ(repaired[0].time_s, repaired[1].time_s);
  EXPECT_EQ(repaired[1].time_s, repaired[2].time_s);
  EXPECT_EQ(repaired[3].time_s, 0.1030);
}

TEST(MonotoneTimes, RepairsATopClockThatMeasuresOnePerCentSlower) {
  // The units of a clock run one after the other: their own spread says little of what differs between clocks.
  const std::vector<ClockTime> repaired = monotone_times({{1410, 0.1010, 1e-6}, {1395, 0.1000, 1e-6}});
  EXPECT_NEAR(repaired[0].time_s, 0.1005, 1e-5);
  EXPECT_EQ(repaired[0].time_s, repaired[1].time_s);
}

TEST(MonotoneTimes, LeavesWhatNoiseDoesNotExplain) {
  const std::vector<ClockTime> capped{{1980, 0.1100, 0.0002}, {1755, 0.1000, 0.0002}, {1200, 0.1200, 0.0002}};
  EXPECT_THAT(times_s(monotone_times(capped)), ElementsAre(0.1100, 0.1000, 0.1200));
  const std::vector<ClockTime> unknown{{1410, 0.1010, 0}, {1395, 0.1000, 0.001}};
  EXPECT_THAT(times_s(monotone_times(unknown)), ElementsAre(0.1010, 0.1000));
}

TEST(MonotoneTimes, KeepsTheOrderInWhichTheyAreGiven) {
  const std::vector<ClockTime> repaired =
      monotone_times({{1200, 0.12, 0.001}, {1395, 0.100, 0.001}, {1410, 0.101, 0.001}});
  EXPECT_EQ(repaired[0].clock_mhz, 1200);
  EXPECT_EQ(repaired[1].clock_mhz, 1395);
  EXPECT_EQ(repaired[2].clock_mhz, 1410);
  EXPECT_NEAR(repaired[2].time_s, 0.1005, 1e-12);
}

TEST(MonotoneTimes, FallWithTheClockWhereverErrorsAreLarge) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> noise(0.99, 1.01);
  for (int i = 0; i < 100; ++i) {
    std::vector<ClockTime> times;
    for (int clock_mhz = 1410; clock_mhz >= 900; clock_mhz -= 15) {
      const double time_s = 0.1 * 1410 / clock_mhz * noise(random);
      times.push_back({clock_mhz, time_s, 0.01 * time_s});
    }
    const std::vector<double> repaired = times_s(monotone_times(times));
    EXPECT_TRUE(std::ranges::is_sorted(repaired)) << i;
    for (std::size_t k = 0; k < times.size(); ++k) EXPECT_NEAR(repaired[k] / times[k].time_s, 1, 0.02);
  }
}

}  // namespace
}  // namespace lowgear::profile
