#include "planning/sharing/contention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/core/error.h"

namespace lowgear::sharing {
namespace {

/// Processor sharing with one customer per job by mean value analysis (Reiser and Lavenberg 1980): the independent
/// oracle of the chain for full widths. `set` are the bits of the jobs that are there.
double queued(const std::vector<Demand>& jobs, std::size_t set, std::size_t job);

double residence(const std::vector<Demand>& jobs, std::size_t set, std::size_t job) {
  double others = 0;
  for (std::size_t other = 0; other < jobs.size(); ++other) {
    if (other != job && ((set >> other) & 1U) != 0) others += queued(jobs, set ^ (std::size_t{1} << job), other);
  }
  return jobs[job].busy * (1 + others);
}

double queued(const std::vector<Demand>& jobs, std::size_t set, std::size_t job) {
  const double time = residence(jobs, set, job);
  return time / (1 - jobs[job].busy + time);
}

TEST(SharedSlowdowns, AreThoseOfMeanValueAnalysisForFullWidths) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> share(0, 1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Demand> jobs(2 + static_cast<std::size_t>(round) % 3);
    for (Demand& job : jobs) job.busy = share(random);
    const std::size_t all = (std::size_t{1} << jobs.size()) - 1;
    const std::vector<Slowdown> slowdowns = shared_slowdowns(jobs, 0);
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      const double expected = 1 - jobs[job].busy + residence(jobs, all, job);
      EXPECT_NEAR(slowdowns[job].predicted, expected, 1e-5);
      EXPECT_LE(slowdowns[job].low, slowdowns[job].predicted);
      EXPECT_GE(slowdowns[job].high, slowdowns[job].predicted);
    }
  }
}

TEST(SharedSlowdowns, AreKnownForSimpleCases) {
  const auto predicted = [](const std::vector<Demand>& jobs) { return shared_slowdowns(jobs, 0).front().predicted; };
  EXPECT_DOUBLE_EQ(predicted({{0.7, 1}}), 1);
  EXPECT_NEAR(predicted({{0.3, 1}, {0.3, 1}}), 1.09, 1e-5);  // 1 + busy^2
  EXPECT_NEAR(predicted({{1, 1}, {1, 1}}), 2, 1e-5);
  EXPECT_NEAR(predicted({{1, 1}, {1, 1}, {1, 1}, {1, 1}}), 4, 1e-4);
  EXPECT_NEAR(predicted({{1, 0.5}, {1, 0.5}}), 1, 1e-9);
  EXPECT_NEAR(predicted({{1, 0.75}, {1, 0.75}}), 1.5, 1e-5);
  EXPECT_NEAR(predicted({{1, 1}, {0, 1}}), 1, 1e-6);
}

TEST(SharedSlowdowns, AreBoundedByTheOtherJobsWork) {
  // Kernels that fill the GPU: a light job can take no more than its own work from a busy one.
  const std::vector<Slowdown> slowdowns = shared_slowdowns(std::vector<Demand>{{1, 1}, {0.05, 1}}, 0);
  EXPECT_NEAR(slowdowns[0].high, 1 / 0.95, 1e-9);
  EXPECT_NEAR(slowdowns[1].high, 1.05, 1e-9);
  // Two that need more than there is are slower in any case.
  const std::vector<Slowdown> full = shared_slowdowns(std::vector<Demand>{{0.9, 1}, {0.9, 1}}, 0);
  EXPECT_GT(full[0].low, 1.5);
  EXPECT_NEAR(full[0].high, 1.9, 1e-9);
}

TEST(SharedSlowdowns, HaveAMarginOnlyWhereJobsShare) {
  const std::vector<Demand> two = {{0.5, 0.5}, {0.5, 0.5}};
  EXPECT_DOUBLE_EQ(shared_slowdowns(two, 0.25).front().high, 1.25);
  EXPECT_DOUBLE_EQ(shared_slowdowns(two, 0.25).front().predicted, 1);
  EXPECT_DOUBLE_EQ(shared_slowdowns(std::vector<Demand>{{0.5, 1}}, 0.25).front().high, 1);
}

TEST(SharedSlowdowns, RefuseWhatIsOutOfRange) {
  const auto refused = [](const std::vector<Demand>& jobs, double margin) {
    EXPECT_THROW(static_cast<void>(shared_slowdowns(jobs, margin)), InputError);
  };
  refused(std::vector<Demand>(5, {0.1, 1}), 0);
  refused({{1.1, 1}}, 0);
  refused({{-0.1, 1}}, 0);
  refused({{0.5, 0}}, 0);
  refused({{0.5, 1.5}}, 0);
  refused({{std::nan(""), 1}}, 0);
  refused({{0.5, 1}}, -0.1);
  refused({{0.5, 1}}, std::nan(""));
}

}  // namespace
}  // namespace lowgear::sharing
