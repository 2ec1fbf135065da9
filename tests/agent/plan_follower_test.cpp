#include "agent/plan_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "agent/access.h"
#include "agent/test_trainer.h"
#include "core/error.h"
#include "gpu/fake_gpu.h"
#include "plan/plan_json.h"

namespace lowgear {
namespace {

using testing::HasSubstr;

const std::vector<int> kSupported = {1980, 1500, 1200, 345};
const AllowedRange kEverything{.min_clock_mhz = 345, .max_clock_mhz = 1980, .min_power_w = 0, .max_power_w = 0};

UnitEvent begin(OpKind kind, std::uint32_t microbatch, std::uint16_t stage = 0) {
  return {.time_ns = 0,
          .type = UnitEventType::unit_begin,
          .kind = static_cast<std::uint8_t>(kind),
          .stage = stage,
          .microbatch = microbatch};
}

void expect_refused(const PlanMessage& message, const AllowedRange& allowed, const std::string& words) {
  try {
    (void)PlanFollower(message, "Fake GPU", kSupported, allowed);
    ADD_FAILURE() << "an error was expected";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
}

TEST(PlanFollower, KnowsTheClockOfEveryUnit) {
  PlanFollower follower(plan_message(two_clock_plan(3, 1200, 1500)), "Fake GPU", kSupported, kEverything);
  EXPECT_EQ(follower.units(), 6U);
  for (std::uint32_t microbatch = 0; microbatch < 3; ++microbatch) {
    EXPECT_EQ(follower.clock_mhz(begin(OpKind::forward, microbatch)), 1200);
    EXPECT_EQ(follower.clock_mhz(begin(OpKind::backward, microbatch)), 1500);
  }
}

TEST(PlanFollower, TakesAPlanForItsModel) {
  Plan plan = read_plan(two_clock_plan(1, 1200, 1500), "plan");
  plan.gpu_name = "Fake GPU";
  EXPECT_EQ(PlanFollower(plan_message(write_plan(plan)), "Fake GPU", kSupported, kEverything).units(), 2U);
}

TEST(PlanFollower, HasNothingToSayAboutOtherEvents) {
  PlanFollower follower(plan_message(two_clock_plan(3, 1200, 1500)), "Fake GPU", kSupported, kEverything);
  EXPECT_FALSE(follower.clock_mhz(begin(OpKind::forward, 3)));
  EXPECT_FALSE(follower.clock_mhz(begin(OpKind::forward, 0, 1)));
  EXPECT_FALSE(follower.clock_mhz(begin(OpKind::weight_gradient, 0)));
  UnitEvent end = begin(OpKind::forward, 0);
  end.type = UnitEventType::unit_end;
  EXPECT_FALSE(follower.clock_mhz(end));
  UnitEvent hostile = begin(static_cast<OpKind>(255), 0xffffffff, 0xffff);
  EXPECT_FALSE(follower.clock_mhz(hostile));
}

TEST(PlanFollower, RefusesAPlanThatDoesNotFit) {
  expect_refused(plan_message("{}"), kEverything, "format");
  expect_refused(plan_message("nonsense"), kEverything, "plan:1:");
  PlanMessage wrong_rank = plan_message(two_clock_plan(1, 1200, 1500));
  wrong_rank.plan_rank = 1;
  expect_refused(wrong_rank, kEverything, "none of number 1");
  Plan other_model = read_plan(two_clock_plan(1, 1200, 1500), "plan");
  other_model.gpu_name = "NVIDIA A100";
  expect_refused(plan_message(write_plan(other_model)), kEverything,
                 "is for \"NVIDIA A100\", and this GPU is \"Fake GPU\"");
  expect_refused(plan_message(two_clock_plan(1, 1300, 1500)), kEverything, "does not support; ask for the nearest");
  expect_refused(plan_message(two_clock_plan(1, 1200, 1500)),
                 {.min_clock_mhz = 345, .max_clock_mhz = 1400, .min_power_w = 0, .max_power_w = 0},
                 "may set 345 to 1400 MHz");
}

TEST(PlanFollower, TakesTheNearestBelowWhenAsked) {
  PlanMessage message = plan_message(two_clock_plan(1, 1499, 1501));
  message.nearest_below = true;
  PlanFollower follower(message, "Fake GPU", kSupported, kEverything);
  EXPECT_EQ(follower.clock_mhz(begin(OpKind::forward, 0)), 1200);
  EXPECT_EQ(follower.clock_mhz(begin(OpKind::backward, 0)), 1500);
  message.plan_json = two_clock_plan(1, 300, 1500);
  expect_refused(message, kEverything, "nor any clock below it");
}

AllowRule rule_for(uid_t user) {
  AllowRule rule;
  rule.user = user;
  return rule;
}

TEST(AccessRules, AllowNobodyWithoutARule) {
  const AccessRules rules({}, [](uid_t, gid_t) { return false; });
  FakeGpu gpu;
  EXPECT_THROW((void)rules.allow({.uid = 0, .gid = 0, .pid = 1}, gpu), AccessDenied) << "not even root";
  EXPECT_TRUE(rules.may_read({.uid = 0, .gid = 0, .pid = 1}));
  EXPECT_FALSE(rules.may_read({.uid = 4242, .gid = 0, .pid = 1}));
}

TEST(AccessRules, GiveNoRightThatIsNotWritten) {
  FakeGpu gpu;
  const GroupLookup no_group = [](uid_t, gid_t) { return false; };
  const AllowedRange bare = AccessRules({rule_for(1001)}, no_group).allow({.uid = 1001, .gid = 1, .pid = 1}, gpu);
  EXPECT_FALSE(bare.power || bare.memory_clocks || bare.persistence);
  AllowRule reader = rule_for(1002);
  reader.control = false;
  AllowRule blind = rule_for(1003);
  blind.read = false;
  AllowRule everybody;
  everybody.everybody = true;
  const AccessRules rules({reader, blind, everybody}, no_group);
  EXPECT_THROW((void)rules.allow({.uid = 1002, .gid = 1, .pid = 1}, gpu), AccessDenied);
  EXPECT_TRUE(rules.may_read({.uid = 1002, .gid = 1, .pid = 1}));
  EXPECT_FALSE(rules.may_read({.uid = 1003, .gid = 1, .pid = 1})) << "the first that fits counts";
  EXPECT_NO_THROW((void)rules.allow({.uid = 1003, .gid = 1, .pid = 1}, gpu));
}

TEST(AccessRules, TakeTheFirstThatFits) {
  FakeGpu gpu;
  AllowRule narrow = rule_for(1001);
  narrow.max_clock_mhz = 1500;
  AllowRule elsewhere = rule_for(1001);
  elsewhere.gpus = {"GPU-other"};
  AllowRule group;
  group.group = 2001;
  group.power = true;
  group.max_power_w = 500;
  const AccessRules rules({elsewhere, narrow, group},
                          [](uid_t user, gid_t wanted) { return user == 7 && wanted == 2001; });
  const AllowedRange alice = rules.allow({.uid = 1001, .gid = 1, .pid = 1}, gpu);
  EXPECT_EQ(alice.min_clock_mhz, 345);
  EXPECT_EQ(alice.max_clock_mhz, 1500);
  EXPECT_EQ(alice.max_power_w, 0) << "limits only where the rule says so";
  const AllowedRange member = rules.allow({.uid = 7, .gid = 1, .pid = 1}, gpu);
  EXPECT_EQ(member.max_clock_mhz, 1980);
  EXPECT_EQ(member.min_power_w, 200);
  EXPECT_EQ(member.max_power_w, 500);
  EXPECT_THROW((void)rules.allow({.uid = 8, .gid = 1, .pid = 1}, gpu), AccessDenied);
  EXPECT_EQ(rules.allow({.uid = 8, .gid = 2001, .pid = 1}, gpu).max_power_w, 500);
}

}  // namespace
}  // namespace lowgear
