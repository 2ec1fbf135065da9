#include "client/agent/held_plans.h"

#include <gtest/gtest.h>

namespace lowgear::client {
namespace {

HeldPlan plan(std::uint64_t from_iteration, int version) {
  HeldPlan plan;
  plan.message.plan_json = "plan " + std::to_string(version);
  plan.from_iteration = from_iteration;
  plan.version = version;
  return plan;
}

TEST(HeldPlans, CountFromTheNextIterationWhenFollowedAtOnce) {
  HeldPlans plans;
  plans.follow_now(plan(0, 3), 5);
  EXPECT_TRUE(plans.followed());
  EXPECT_EQ(plans.version_of(4), 0) << "it began under no plan";
  EXPECT_EQ(plans.version_of(5), 3);
  EXPECT_EQ(plans.version_of(9), 3);
}

TEST(HeldPlans, BecomeCurrentOnceTheirIterationHasBegun) {
  HeldPlans plans;
  plans.follow_now(plan(0, 1), 0);
  plans.follow_later(plan(7, 2), 5);
  EXPECT_FALSE(plans.begin_next(7, true)) << "iterations 0 to 6 have begun";
  EXPECT_EQ(plans.current()->version, 1);
  EXPECT_TRUE(plans.begin_next(8, true));
  EXPECT_EQ(plans.current()->version, 2);
  EXPECT_FALSE(plans.begin_next(8, true)) << "nothing waits any more";
  EXPECT_EQ(plans.version_of(6), 1);
  EXPECT_EQ(plans.version_of(7), 2);
}

TEST(HeldPlans, AreReplacedByNewerOnesBeforeTheirIteration) {
  HeldPlans plans;
  plans.follow_now(plan(0, 1), 0);
  plans.follow_later(plan(7, 2), 5);
  plans.follow_later(plan(9, 3), 6);
  EXPECT_EQ(plans.version_of(8), 1);
  EXPECT_EQ(plans.version_of(9), 3);
}

TEST(HeldPlans, CountAsNoneWhereTheAgentMayHaveBegunTheOneThatIsReplaced) {
  HeldPlans plans;
  plans.follow_now(plan(0, 1), 0);
  plans.follow_later(plan(7, 2), 5);
  plans.follow_later(plan(9, 3), 8);
  EXPECT_EQ(plans.version_of(6), 1);
  EXPECT_EQ(plans.version_of(7), 0);
  EXPECT_EQ(plans.version_of(8), 0);
  EXPECT_EQ(plans.version_of(9), 3);
}

TEST(HeldPlans, StayForTheNextAgentAndCountNoLonger) {
  HeldPlans plans;
  plans.follow_now(plan(0, 1), 0);
  plans.follow_later(plan(7, 2), 5);
  plans.lose_agent(6);
  EXPECT_FALSE(plans.followed());
  EXPECT_EQ(plans.version_of(4), 1);
  EXPECT_EQ(plans.version_of(5), 0) << "it was under way";
  EXPECT_EQ(plans.version_of(7), 0) << "no agent has it";
  ASSERT_TRUE(plans.current());
  EXPECT_EQ(plans.current()->message.plan_json, "plan 1");
  const std::optional<HeldPlan> waiting = plans.take_next();
  ASSERT_TRUE(waiting);
  EXPECT_EQ(waiting->version, 2);
  EXPECT_FALSE(plans.take_next());
}

TEST(HeldPlans, AreNotFollowedWhenTheyBeginWithoutAnAgent) {
  HeldPlans plans;
  plans.follow_later(plan(7, 2), 5);
  plans.lose_agent(6);
  EXPECT_TRUE(plans.begin_next(8, false));
  EXPECT_FALSE(plans.followed());
}

TEST(HeldPlans, LoseTheirVersionsWithTheServersJob) {
  HeldPlans plans;
  plans.follow_now(plan(0, 1), 0);
  plans.follow_later(plan(7, 2), 5);
  plans.forget_versions(6);
  EXPECT_TRUE(plans.followed()) << "the clocks stay";
  EXPECT_EQ(plans.current()->version, 0);
  EXPECT_EQ(plans.version_of(5), 0);
  EXPECT_EQ(plans.version_of(8), 0);
  EXPECT_EQ(plans.take_next()->version, 0);
}

TEST(HeldPlans, AreForgotten) {
  HeldPlans plans;
  plans.follow_now(plan(0, 1), 0);
  plans.follow_later(plan(7, 2), 5);
  plans.forget();
  EXPECT_FALSE(plans.current());
  EXPECT_FALSE(plans.take_next());
  EXPECT_EQ(plans.version_of(3), 1) << "which was followed is still known";
}

}  // namespace
}  // namespace lowgear::client
