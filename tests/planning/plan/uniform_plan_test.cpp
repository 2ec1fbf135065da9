#include "planning/plan/uniform_plan.h"

#include <gtest/gtest.h>

#include "planning/schedule/communication.h"
#include "planning/schedule/generators.h"

namespace lowgear::plan {
namespace {

TEST(UniformPlan, HasEveryComputationInOrderAtOneClock) {
  const schedule::Schedule schedule = schedule::one_f_one_b_schedule(2, 3);
  const Plan plan = uniform_plan(schedule, 1410, "profile");
  EXPECT_EQ(plan.policy, "profile");
  EXPECT_EQ(plan.schedule, "1f1b");
  EXPECT_EQ(plan.microbatches, 3);
  ASSERT_EQ(plan.ranks.size(), 2U);
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    ASSERT_EQ(plan.ranks[rank].size(), schedule.ranks[rank].size());
    for (std::size_t i = 0; i < plan.ranks[rank].size(); ++i) {
      const PlannedOp& op = plan.ranks[rank][i];
      EXPECT_EQ(op.clock_mhz, 1410);
      EXPECT_EQ((schedule::Action{schedule::ActionKind::compute, op.kind, op.stage, op.microbatch}),
                schedule.ranks[rank][i]);
    }
  }
  EXPECT_EQ(count_switches(plan.ranks), 0);
}

TEST(UniformPlan, LeavesMessagesOut) {
  const schedule::Schedule schedule = schedule::one_f_one_b_schedule(2, 3);
  EXPECT_EQ(uniform_plan(with_communication(schedule), 900, "profile").ranks[0].size(), schedule.ranks[0].size());
}

}  // namespace
}  // namespace lowgear::plan
