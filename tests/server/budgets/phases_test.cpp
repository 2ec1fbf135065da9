#include "server/budgets/phases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/core/error.h"

namespace lowgear::server {
namespace {

PhasedJob phased(double begin_s, double time_s, double most_delay_s, double offset_s = 0) {
  return {.begin_s = begin_s, .time_s = time_s, .most_delay_s = most_delay_s, .offset_s = offset_s};
}

/// How far two times are apart on a circle.
double apart_s(double a_s, double b_s, double period_s) { return std::abs(std::remainder(a_s - b_s, period_s)); }

TEST(SamePeriodGroups, HaveJobsThatCanWaitForTheLongest) {
  const std::vector<PhasedJob> jobs{phased(0, 1.00, 0.05), phased(0, 0.96, 0.05), phased(0, 0.94, 0.05),
                                    phased(0, 0.5, 0.01), phased(0, 0.49, 0.01)};
  EXPECT_EQ(same_period_groups(jobs), (std::vector<std::vector<std::size_t>>{{0, 1}, {2}, {3, 4}}));
  EXPECT_TRUE(same_period_groups({}).empty());
}

TEST(KeepPhases, LetsTheOthersWaitForTheJobThatIsLate) {
  const Phases phases = keep_phases(std::vector{phased(10.0, 1, 0.05), phased(10.02, 1, 0.05)}, 4);
  EXPECT_DOUBLE_EQ(phases.period_s, 1);
  EXPECT_NEAR(phases.error_s[0], 0.02, 1e-9);
  EXPECT_EQ(phases.error_s[1], 0) << "which would else wait for almost a whole iteration";
  EXPECT_NEAR(phases.delay_s[0], 0.005, 1e-9);
  EXPECT_EQ(phases.delay_s[1], 0);
}

TEST(KeepPhases, MakesUpForShorterIterationsAndExceedsNoBound) {
  const Phases phases = keep_phases(std::vector{phased(0, 1, 0), phased(0, 0.98, 0.03), phased(0.5, 0.99, 0.03)}, 10);
  EXPECT_NEAR(phases.delay_s[1], 0.02, 1e-9) << "it is in phase, and stays so";
  EXPECT_EQ(phases.delay_s[2], 0.03) << "half a period late of its turn: as much as it may";
  EXPECT_EQ(phases.delay_s[0], 0) << "it may not be delayed";
}

TEST(KeepPhases, RefusesWhatIsNoJob) {
  EXPECT_THROW((void)keep_phases({}, 1), InputError);
  EXPECT_THROW((void)keep_phases(std::vector{phased(0, 1, 0)}, 0), InputError);
  EXPECT_THROW((void)keep_phases(std::vector{phased(0, 0, 0)}, 1), InputError);
  EXPECT_THROW((void)keep_phases(std::vector{phased(0, 1, -1)}, 1), InputError);
  EXPECT_THROW((void)keep_phases(std::vector{phased(std::numeric_limits<double>::quiet_NaN(), 1, 0)}, 1), InputError);
}

/// Jobs whose iterations take a random time around their mean, and what they have waited.
struct Simulated {
  std::vector<PhasedJob> jobs;
  std::vector<double> waited_s;

  void run(const std::vector<double>& delay_s, int iterations, double jitter, std::mt19937& random) {
    std::normal_distribution<double> noise(1, jitter);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      for (int k = 0; k < iterations; ++k) jobs[i].begin_s += delay_s[i] + jobs[i].time_s * noise(random);
      waited_s[i] += iterations * delay_s[i];
    }
  }
};

/// Random jobs of nearly the same time at random phases come to their offsets and stay there, though every iteration
/// takes another time, and wait in each iteration for no longer than they may.
TEST(KeepPhases, BringsJobsTogetherAndKeepsThem) {
  constexpr int kRounds = 60;
  constexpr int kIterations = 6;
  constexpr double kJitter = 1e-3;
  std::mt19937 random(7);
  for (int fleet = 0; fleet < 50; ++fleet) {
    Simulated simulated;
    const int count = 2 + fleet % 5;
    for (int i = 0; i < count; ++i) {
      const double time_s = std::uniform_real_distribution(0.995, 1.0)(random);
      const double phase_s = std::uniform_real_distribution(0.0, 1.0)(random);
      simulated.jobs.push_back(phased(1.7e9 + phase_s, time_s, 0.02, std::uniform_real_distribution(0.0, 1.0)(random)));
    }
    simulated.waited_s.assign(simulated.jobs.size(), 0);
    double worst_s = 0;
    for (int round = 0; round < kRounds; ++round) {
      const Phases phases = keep_phases(simulated.jobs, kIterations);
      for (std::size_t i = 0; i < phases.delay_s.size(); ++i) {
        ASSERT_GE(phases.delay_s[i], 0);
        ASSERT_LE(phases.delay_s[i], simulated.jobs[i].most_delay_s);
      }
      simulated.run(phases.delay_s, kIterations, kJitter, random);
      if (round < kRounds / 2) continue;
      for (const PhasedJob& each : simulated.jobs) {
        const PhasedJob& first = simulated.jobs.front();
        worst_s = std::max(worst_s, apart_s(each.begin_s - first.begin_s, each.offset_s - first.offset_s, 1));
      }
    }
    EXPECT_LT(worst_s, 0.03) << "fleet " << fleet << ": iterations scatter by 1 ms, six of them by 2.4 ms";
  }
}

/// The same jobs without delays drift through all phases: the test before would fail without what it tests.
TEST(KeepPhases, IsNeededAsJobsDrift) {
  std::mt19937 random(7);
  Simulated simulated{.jobs = {phased(0, 1, 0), phased(0, 0.997, 0)}, .waited_s = {0, 0}};
  double worst_s = 0;
  for (int round = 0; round < 60; ++round) {
    simulated.run({0, 0}, 6, 1e-3, random);
    worst_s = std::max(worst_s, apart_s(simulated.jobs[0].begin_s, simulated.jobs[1].begin_s, 1));
  }
  EXPECT_GT(worst_s, 0.4);
}

}  // namespace
}  // namespace lowgear::server
