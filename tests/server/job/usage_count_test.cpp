#include "server/job/usage_count.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lowgear::server {
namespace {

usage::UsageRow names() {
  usage::UsageRow row;
  row.job = "j-1";
  row.user = "ada";
  return row;
}

JobIteration used_iteration(std::int64_t number, std::optional<double> energy_j) {
  JobIteration one;
  one.iteration = number;
  one.time_s = 2;
  one.energy_j = energy_j;
  one.energy_error_j = energy_j ? 3 : 0;
  return one;
}

IterationMeans baseline(double energy_j) {
  IterationMeans means;
  means.time_s = 1.9;
  means.energy_j = energy_j;
  means.energy_error_j = 1;
  return means;
}

TEST(UsageCount, AddsIterationsOfAnHourAndABaselineUp) {
  UsageCount count;
  std::vector<StoredUsage> rows;
  count.add(used_iteration(0, 100), names(), {}, true, 3'700, rows);
  count.add(used_iteration(1, 90), names(), baseline(100), false, 3'702, rows);
  count.add(used_iteration(2, {}), names(), baseline(100), false, 3'704, rows);
  count.add(used_iteration(3, 80), names(), baseline(100), false, 7'199.9, rows);
  count.add(used_iteration(4, 70), names(), baseline(100), false, 7'200, rows);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].row.hour_s, 3'600);
  EXPECT_FALSE(rows[0].row.has_baseline());
  EXPECT_EQ(rows[0].row.doubtful_energy_j, 100);
  EXPECT_EQ(rows[1].row.iterations, 3);
  EXPECT_EQ(rows[1].row.measured_iterations, 2);
  EXPECT_EQ(rows[1].row.energy_j, 170);
  EXPECT_EQ(rows[1].row.doubtful_energy_j, 0);
  EXPECT_DOUBLE_EQ(rows[1].row.energy_error_j, std::hypot(3, 3));
  EXPECT_EQ(rows[1].row.time_s, 6);
  EXPECT_EQ(rows[1].row.user, "ada");
  EXPECT_EQ(rows[1].last_iteration, 3);
  EXPECT_EQ(rows[2].row.hour_s, 7'200);
}

TEST(UsageCount, CountsNoIterationTwice) {
  UsageCount count;
  EXPECT_FALSE(count.is_restored());
  count.restore(5);
  EXPECT_TRUE(count.is_restored());
  std::vector<StoredUsage> rows;
  count.add(used_iteration(5, 100), names(), {}, false, 0, rows);
  EXPECT_TRUE(rows.empty());
  count.add(used_iteration(6, 100), names(), {}, false, 0, rows);
  count.add(used_iteration(6, 100), names(), {}, false, 0, rows);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].row.iterations, 1);
}

TEST(UsageCount, ComparesWithNoBaselineThatHasNoEnergy) {
  UsageCount count;
  std::vector<StoredUsage> rows;
  IterationMeans means = baseline(100);
  means.energy_j.reset();
  count.add(used_iteration(0, 100), names(), means, false, 0, rows);
  EXPECT_FALSE(rows.at(0).row.has_baseline());
}

}  // namespace
}  // namespace lowgear::server
