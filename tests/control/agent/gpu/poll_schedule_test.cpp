#include "control/agent/gpu/poll_schedule.h"

#include <gtest/gtest.h>

namespace lowgear::agent {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kStart = 1'000 * kMs;

/// An iteration of three units, 10, 20 and 30 ms apart.
void run_iteration(PollSchedule& schedule, std::int64_t start_ns) {
  schedule.iteration_began(start_ns);
  schedule.unit_began(start_ns + 10 * kMs);
  schedule.unit_began(start_ns + 30 * kMs);
  schedule.unit_began(start_ns + 60 * kMs);
}

TEST(PollSchedule, LooksCoarselyWhereNothingIsKnown) {
  PollSchedule schedule;
  EXPECT_EQ(schedule.sleep_ns(kStart), PollSchedule::kCoarseNs);
  run_iteration(schedule, kStart);
  EXPECT_EQ(schedule.sleep_ns(kStart + 61 * kMs), PollSchedule::kCoarseNs);
}

TEST(PollSchedule, LooksFinelyWhereTheLastIterationHadAUnit) {
  PollSchedule schedule;
  run_iteration(schedule, kStart);
  const std::int64_t second = kStart + 100 * kMs;
  schedule.iteration_began(second);
  schedule.unit_began(second + 10 * kMs);
  EXPECT_EQ(schedule.sleep_ns(second + 11 * kMs), PollSchedule::kCoarseNs);
  EXPECT_EQ(schedule.sleep_ns(second + 30 * kMs), PollSchedule::kFineNs);
  EXPECT_EQ(schedule.sleep_ns(second + 31 * kMs), PollSchedule::kFineNs);
  EXPECT_EQ(schedule.sleep_ns(second + 60 * kMs), PollSchedule::kCoarseNs);
}

TEST(PollSchedule, ExpectsTheNextIterationToo) {
  PollSchedule schedule;
  run_iteration(schedule, kStart);
  run_iteration(schedule, kStart + 100 * kMs);
  EXPECT_EQ(schedule.sleep_ns(kStart + 200 * kMs), PollSchedule::kFineNs);
}

TEST(PollSchedule, NeverSleepsPastTheWindow) {
  PollSchedule schedule;
  run_iteration(schedule, kStart);
  schedule.iteration_began(kStart + 100 * kMs);
  const std::int64_t expected_ns = kStart + 110 * kMs;
  for (std::int64_t now_ns = kStart + 100 * kMs; now_ns < expected_ns; now_ns += 1'000) {
    EXPECT_LT(now_ns + schedule.sleep_ns(now_ns), expected_ns + PollSchedule::kCoarseNs);
    if (schedule.sleep_ns(now_ns) > PollSchedule::kFineNs) {
      EXPECT_LE(now_ns + schedule.sleep_ns(now_ns), expected_ns);
    }
  }
}

TEST(PollSchedule, APauseTeachesNothing) {
  PollSchedule schedule;
  run_iteration(schedule, kStart);
  schedule.iteration_began(kStart + 100 * kMs);
  schedule.pause();
  EXPECT_EQ(schedule.sleep_ns(kStart + 110 * kMs), PollSchedule::kCoarseNs);
  run_iteration(schedule, kStart + 9'000 * kMs);
  schedule.iteration_began(kStart + 9'100 * kMs);
  EXPECT_EQ(schedule.sleep_ns(kStart + 9'110 * kMs), PollSchedule::kFineNs);
}

TEST(PollSchedule, BoundsItsMemoryWithoutIterations) {
  PollSchedule schedule;
  for (std::size_t unit = 0; unit < PollSchedule::kMaxUnits + 10; ++unit) {
    schedule.unit_began(kStart + static_cast<std::int64_t>(unit) * kMs);
  }
  EXPECT_EQ(schedule.sleep_ns(kStart), PollSchedule::kCoarseNs);
}

TEST(PollSchedule, TakesTimesThatRunBackwards) {
  PollSchedule schedule;
  schedule.iteration_began(kStart);
  schedule.unit_began(kStart - 500 * kMs);
  schedule.iteration_began(kStart);
  EXPECT_EQ(schedule.sleep_ns(kStart), PollSchedule::kCoarseNs);
}

}  // namespace
}  // namespace lowgear::agent
