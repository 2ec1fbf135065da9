#include "server/parts/iteration_means.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lowgear::server {
namespace {

std::vector<JobIteration> of_times(const std::vector<double>& times_s) {
  std::vector<JobIteration> iterations;
  for (const double time_s : times_s) {
    iterations.emplace_back();
    iterations.back().time_s = time_s;
    iterations.back().energy_j = 100 * time_s;
  }
  return iterations;
}

TEST(IterationMeans, OfNone) { EXPECT_EQ(means_of({}).iterations, 0); }

TEST(IterationMeans, OfOneHaveNoScatterButTheErrorOfItsMeter) {
  std::vector<JobIteration> iterations = of_times({2});
  iterations[0].energy_error_j = 3;
  const IterationMeans means = means_of(iterations);
  EXPECT_EQ(means.iterations, 1);
  EXPECT_DOUBLE_EQ(means.time_s, 2);
  EXPECT_EQ(means.time_error_s, 0);
  EXPECT_DOUBLE_EQ(means.energy_error_j, 3);
}

TEST(IterationMeans, HaveErrorsFromTheScatter) {
  const IterationMeans means = means_of(of_times({1, 1.2, 1.4}));
  EXPECT_DOUBLE_EQ(means.time_s, 1.2);
  EXPECT_NEAR(means.time_spread_s, 0.2, 1e-12);
  EXPECT_NEAR(means.time_error_s, 0.2 / std::sqrt(3), 1e-12);
  EXPECT_DOUBLE_EQ(means.energy_j.value_or(0), 120);
  EXPECT_NEAR(means.energy_error_j, 20 / std::sqrt(3), 1e-10);
}

TEST(IterationMeans, HaveErrorsOfTheMetersWhereThoseAreLarger) {
  std::vector<JobIteration> iterations = of_times({1, 1, 1, 1});
  for (JobIteration& iteration : iterations) iteration.energy_error_j = 6;
  EXPECT_NEAR(means_of(iterations).energy_error_j, 3, 1e-12);
}

TEST(IterationMeans, HaveNoEnergyWhereOneDidNotMeasureIt) {
  std::vector<JobIteration> iterations = of_times({1, 1});
  iterations[1].energy_j.reset();
  EXPECT_FALSE(means_of(iterations).energy_j);
}

TEST(IterationMeans, LeaveStallsOut) {
  std::vector<double> times_s(20, 1.0);
  times_s[7] = 30;
  times_s[11] = 2.1;
  times_s[12] = 1.9;
  const IterationMeans means = means_of(of_times(times_s));
  EXPECT_EQ(means.iterations, 18);
  EXPECT_EQ(means.stalled, 2);
  EXPECT_NEAR(means.time_s, 1.05, 1e-12);
  EXPECT_NEAR(means.energy_j.value_or(0), 105, 1e-10);
}

TEST(IterationMeans, CountAllWhereManyStall) {
  const IterationMeans means = means_of(of_times({1, 1, 1, 5, 5}));
  EXPECT_EQ(means.iterations, 5);
  EXPECT_EQ(means.stalled, 0);
  EXPECT_DOUBLE_EQ(means.time_s, 2.6);
  EXPECT_GT(means.time_error_s, 0.9);
  EXPECT_EQ(means_of(of_times({1, 30})).stalled, 0);
  EXPECT_EQ(means_of(of_times({1, 30, 1, 1})).stalled, 1);
}

}  // namespace
}  // namespace lowgear::server
