#include "server/job/plan_guard.h"

#include <gtest/gtest.h>

namespace lowgear::server {
namespace {

JobPlan plan(double time_s) {
  JobPlan plan;
  plan.time_s = time_s;
  plan.fastest_time_s = 1;
  return plan;
}

const std::optional<IterationMeans> kBaseline =
    IterationMeans{.iterations = 10, .time_s = 1, .time_error_s = 1e-4, .energy_j = {}};

TEST(PlanGuard, IsNoneWithoutABaselineAndUnderACap) {
  PlanGuard guard;
  EXPECT_FALSE(guard.has_limit(2));
  guard.follow(plan(1.01), false, std::nullopt, 2);
  EXPECT_FALSE(guard.has_limit(2));
  guard.follow(plan(1.01), false, kBaseline, 2);
  EXPECT_TRUE(guard.has_limit(2));
  EXPECT_FALSE(guard.has_limit(3));
  guard.follow(plan(1.01), true, kBaseline, 2);
  EXPECT_FALSE(guard.has_limit(2));
  EXPECT_TRUE(guard.is_capped());
  EXPECT_FALSE(guard.observe(1e9, 50));
  EXPECT_EQ(guard.allowed_share(), 1);
}

TEST(PlanGuard, StepsBackTowardsTheFastestPlan) {
  PlanGuard guard;
  guard.follow(plan(1.02), false, kBaseline, 3);
  EXPECT_EQ(guard.allowed_share(), 1);
  double share = 1;
  for (int i = 0; i < 400 && !guard.requires_full_clocks(); ++i) {
    if (!guard.observe(1e9 + i, 1.08)) continue;
    if (!guard.requires_full_clocks()) {
      EXPECT_LT(guard.allowed_share(), share);
      share = guard.allowed_share();
    }
  }
  EXPECT_LT(share, 1);
  EXPECT_TRUE(guard.requires_full_clocks());
  EXPECT_EQ(guard.allowed_share(), 1);
}

TEST(PlanGuard, GuardsThePlanInForceByAnotherLimit) {
  PlanGuard guard;
  guard.follow(plan(1.01), false, kBaseline, 2);
  guard.keep_to(7, 1.01, kBaseline);
  EXPECT_TRUE(guard.has_limit(7));
  EXPECT_FALSE(guard.requires_full_clocks());
}

}  // namespace
}  // namespace lowgear::server
