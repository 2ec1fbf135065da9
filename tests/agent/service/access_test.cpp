#include "agent/service/access.h"

#include <gtest/gtest.h>

#include "hardware/gpu/fake_gpu.h"

namespace lowgear::agent {
namespace {

AllowRule rule_for(uid_t user) {
  AllowRule rule;
  rule.user = user;
  return rule;
}

TEST(AccessRules, AllowNobodyWithoutARule) {
  const AccessRules rules({}, [](uid_t, gid_t) { return false; });
  gpu::FakeGpu gpu;
  EXPECT_THROW((void)rules.allow({.uid = 0, .gid = 0, .pid = 1}, know(gpu)), AccessDenied) << "not even root";
  EXPECT_TRUE(rules.may_read({.uid = 0, .gid = 0, .pid = 1}));
  EXPECT_FALSE(rules.may_read({.uid = 4242, .gid = 0, .pid = 1}));
}

TEST(AccessRules, GiveNoRightThatIsNotWritten) {
  gpu::FakeGpu gpu;
  const GroupLookup no_group = [](uid_t, gid_t) { return false; };
  const AllowedRange bare = AccessRules({rule_for(1001)}, no_group).allow({.uid = 1001, .gid = 1, .pid = 1}, know(gpu));
  EXPECT_FALSE(bare.power || bare.memory_clocks || bare.persistence || bare.workload_power_profiles ||
               bare.power_smoothing);
  AllowRule reader = rule_for(1002);
  reader.control = false;
  AllowRule blind = rule_for(1003);
  blind.read = false;
  AllowRule everybody;
  everybody.everybody = true;
  const AccessRules rules({reader, blind, everybody}, no_group);
  EXPECT_THROW((void)rules.allow({.uid = 1002, .gid = 1, .pid = 1}, know(gpu)), AccessDenied);
  EXPECT_TRUE(rules.may_read({.uid = 1002, .gid = 1, .pid = 1}));
  EXPECT_FALSE(rules.may_read({.uid = 1003, .gid = 1, .pid = 1})) << "the first that fits counts";
  EXPECT_NO_THROW((void)rules.allow({.uid = 1003, .gid = 1, .pid = 1}, know(gpu)));
}

TEST(AccessRules, TakeTheFirstThatFits) {
  gpu::FakeGpu gpu;
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
  const AllowedRange alice = rules.allow({.uid = 1001, .gid = 1, .pid = 1}, know(gpu));
  EXPECT_EQ(alice.min_clock_mhz, 345);
  EXPECT_EQ(alice.max_clock_mhz, 1500);
  EXPECT_EQ(alice.max_power_w, 0) << "limits only where the rule says so";
  const AllowedRange member = rules.allow({.uid = 7, .gid = 1, .pid = 1}, know(gpu));
  EXPECT_EQ(member.max_clock_mhz, 1980);
  EXPECT_EQ(member.min_power_w, 200);
  EXPECT_EQ(member.max_power_w, 500);
  EXPECT_THROW((void)rules.allow({.uid = 8, .gid = 1, .pid = 1}, know(gpu)), AccessDenied);
  EXPECT_EQ(rules.allow({.uid = 8, .gid = 2001, .pid = 1}, know(gpu)).max_power_w, 500);
}

}  // namespace
}  // namespace lowgear::agent
