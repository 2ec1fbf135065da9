#include "estimating/estimator/work/work_cost.h"

#include <gtest/gtest.h>

namespace lowgear::estimator {
namespace {

TEST(WorkCost, AddsWhatLimitsTheWorkApart) {
  const WorkCost product{.core_s = 2, .flops = 100, .memory_bytes = 10, .error_s = 0.25};
  const WorkCost norm{.memory_s = 1, .memory_bytes = 30, .error_s = 0.5};
  const WorkCost sum = 3.0 * product + norm;
  EXPECT_DOUBLE_EQ(sum.core_s, 6);
  EXPECT_DOUBLE_EQ(sum.memory_s, 1);
  EXPECT_DOUBLE_EQ(sum.time_s(), 7);
  EXPECT_DOUBLE_EQ(sum.flops, 300);
  EXPECT_DOUBLE_EQ(sum.memory_bytes, 60);
  EXPECT_DOUBLE_EQ(sum.error_s, 1.25);
}

TEST(WorkCost, TakesAnotherTimeForTheSameWork) {
  const WorkCost longer = taking({.core_s = 2, .memory_s = 1, .flops = 100, .memory_bytes = 10, .error_s = 0.3}, 6);
  EXPECT_DOUBLE_EQ(longer.core_s, 4);
  EXPECT_DOUBLE_EQ(longer.memory_s, 2);
  EXPECT_DOUBLE_EQ(longer.error_s, 0.6);
  EXPECT_DOUBLE_EQ(longer.flops, 100);
  EXPECT_DOUBLE_EQ(longer.memory_bytes, 10);
}

}  // namespace
}  // namespace lowgear::estimator
