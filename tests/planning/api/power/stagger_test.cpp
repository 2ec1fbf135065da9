#include "planning/api/power/stagger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "base/core/error.h"

namespace lowgear::api {
namespace {

/// `high_w` for a share of the iteration, then `low_w`.
JobCycle two_levels(double time_s, double high_share, double high_w, double low_w) {
  JobCycle cycle{.time_s = time_s};
  for (std::size_t part = 0; part < kCycleParts; ++part) {
    const bool is_high = static_cast<double>(part) < high_share * kCycleParts;
    cycle.power_w[part] = is_high ? high_w : low_w;
  }
  return cycle;
}

double energy_j(const JobCycle& cycle) {
  return std::accumulate(cycle.power_w.begin(), cycle.power_w.end(), 0.0) * cycle.time_s / kCycleParts;
}

/// Of all jobs with these delays: of equal times, by their definition.
PowerRange range_with(const std::vector<JobCycle>& jobs, const std::vector<double>& delay_s) {
  std::array<double, kCycleParts> sum_w{};
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    for (std::size_t part = 0; part < kCycleParts; ++part) {
      const auto delay = static_cast<std::size_t>(delay_s[job] / jobs[job].time_s * kCycleParts + 0.5);
      sum_w[(part + delay) % kCycleParts] += jobs[job].power_w[part];
    }
  }
  return {*std::ranges::max_element(sum_w), *std::ranges::min_element(sum_w)};
}

TEST(StaggerJobs, LetsOneWorkWhileTheOtherWaits) {
  const std::vector<JobCycle> jobs(2, two_levels(4, 0.5, 1000, 200));
  const Stagger stagger = stagger_jobs(jobs, 0.5);
  EXPECT_DOUBLE_EQ(stagger.together.peak_w, 2000);
  EXPECT_DOUBLE_EQ(stagger.together.swing_w(), 1600);
  EXPECT_DOUBLE_EQ(stagger.staggered.peak_w, 1200);
  EXPECT_DOUBLE_EQ(stagger.staggered.swing_w(), 0);
  EXPECT_DOUBLE_EQ(std::abs(stagger.delay_s[0] - stagger.delay_s[1]), 2);
}

TEST(StaggerJobs, SpreadsShortWaitsOfManyJobs) {
  const std::vector<JobCycle> jobs(8, two_levels(2, 0.875, 800, 400));
  const Stagger stagger = stagger_jobs(jobs, 0.9);
  EXPECT_DOUBLE_EQ(stagger.together.swing_w(), 8 * 400);
  EXPECT_NEAR(stagger.staggered.swing_w(), 0, 1e-6);
}

TEST(StaggerJobs, DelaysNoneByMoreThanItMay) {
  const std::vector<JobCycle> jobs(3, two_levels(2, 0.5, 1000, 0));
  const Stagger stagger = stagger_jobs(jobs, 0.25);
  for (const double delay_s : stagger.delay_s) EXPECT_LE(delay_s, 0.5);
  EXPECT_LE(stagger.staggered.swing_w(), stagger.together.swing_w());
  const Stagger none = stagger_jobs(jobs, 0);
  EXPECT_EQ(none.delay_s, std::vector<double>(3, 0));
  EXPECT_EQ(none.staggered.peak_w, 3000);
}

TEST(StaggerJobs, CannotHelpJobsOfOtherTimes) {
  const std::vector<JobCycle> jobs{two_levels(4, 0.5, 1000, 200), two_levels(5, 0.5, 1000, 200)};
  const Stagger stagger = stagger_jobs(jobs, 0.5);
  EXPECT_EQ(stagger.delay_s, std::vector<double>(2, 0));
  EXPECT_DOUBLE_EQ(stagger.together.swing_w(), 1600);
  EXPECT_DOUBLE_EQ(stagger.staggered.swing_w(), 1600);
}

TEST(StaggerJobs, HelpsEachGroupOfEqualTimes) {
  std::vector<JobCycle> jobs(2, two_levels(4, 0.5, 1000, 200));
  jobs.push_back(two_levels(5, 0.5, 500, 100));
  jobs.push_back(two_levels(5 * (1 + kSameTimePct / 200), 0.5, 500, 100));
  const Stagger stagger = stagger_jobs(jobs, 0.5);
  EXPECT_NEAR(stagger.staggered.swing_w(), 0, 1e-6);
  EXPECT_DOUBLE_EQ(stagger.staggered.peak_w, 1200 + 600);
}

/// States what it does, makes nothing worse, and comes near the best delays of all where these can be tried.
TEST(StaggerJobs, IsNearTheBestOfRandomJobs) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  double worst = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<JobCycle> jobs;
    for (int job = 0; job < 3; ++job) {
      jobs.push_back(two_levels(3, 0.3 + 0.5 * uniform(random), 500 + 1000 * uniform(random), 200 * uniform(random)));
      for (double& power_w : jobs.back().power_w) power_w *= 1 + 0.1 * uniform(random);
    }
    const Stagger stagger = stagger_jobs(jobs, 0.99);
    const PowerRange stated = range_with(jobs, stagger.delay_s);
    EXPECT_NEAR(stagger.staggered.peak_w, stated.peak_w, 1e-6);
    EXPECT_NEAR(stagger.staggered.least_w, stated.least_w, 1e-6);
    EXPECT_LE(stagger.staggered.swing_w(), stagger.together.swing_w());
    double best_w = std::numeric_limits<double>::infinity();
    const double part_s = 3.0 / kCycleParts;
    for (std::size_t a = 0; a < kCycleParts; ++a) {
      for (std::size_t b = 0; b < kCycleParts; ++b) {
        best_w = std::min(
            best_w, range_with(jobs, {0, static_cast<double>(a) * part_s, static_cast<double>(b) * part_s}).swing_w());
      }
    }
    worst = std::max(worst, stagger.staggered.swing_w() / best_w);
  }
  EXPECT_LT(worst, 1.02);
}

TEST(StaggerJobs, RefusesWhatIsNoCycle) {
  EXPECT_THROW((void)stagger_jobs(std::vector<JobCycle>(1), 0.5), InputError);
  EXPECT_THROW((void)stagger_jobs(std::vector<JobCycle>{two_levels(1, 0.5, -1, 0)}, 0.5), InputError);
  EXPECT_THROW((void)stagger_jobs({}, 1), InputError);
  EXPECT_THROW((void)stagger_jobs({}, -0.1), InputError);
  EXPECT_TRUE(stagger_jobs({}, 0.5).delay_s.empty());
}

TEST(ExtendedCycle, KeepsEnergyAndWaits) {
  const JobCycle cycle = two_levels(3, 0.5, 900, 300);
  const JobCycle longer = extended(cycle, 4, 100);
  EXPECT_DOUBLE_EQ(longer.time_s, 4);
  EXPECT_NEAR(energy_j(longer), energy_j(cycle) + 100, 1e-6);
  EXPECT_NEAR(longer.power_w.front(), 900, 1e-9);
  EXPECT_NEAR(longer.power_w.back(), 100, 1e-9);
  EXPECT_EQ(extended(cycle, 2, 100).power_w, cycle.power_w);
}

}  // namespace
}  // namespace lowgear::api
