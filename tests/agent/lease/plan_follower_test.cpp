#include "agent/lease/plan_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "agent/test_trainer.h"
#include "base/core/error_of.h"
#include "planning/plan/plan_json.h"

namespace lowgear::agent {
namespace {

using testing::HasSubstr;

const std::vector<int> kSupported = {1980, 1500, 1200, 345};
const AllowedRange kEverything{.min_clock_mhz = 345, .max_clock_mhz = 1980, .min_power_w = 0, .max_power_w = 0};

ipc::UnitEvent begin(OpKind kind, std::uint32_t microbatch, std::uint16_t stage = 0) {
  return {.time_ns = 0,
          .type = ipc::UnitEventType::unit_begin,
          .kind = static_cast<std::uint8_t>(kind),
          .stage = stage,
          .microbatch = microbatch};
}

void expect_refused(const ipc::PlanMessage& message, const AllowedRange& allowed, const std::string& words) {
  EXPECT_THAT(error_of([&] { (void)PlanFollower(message, "Fake GPU", kSupported, allowed); }), HasSubstr(words));
}

TEST(PlanFollower, KnowsTheClockOfEveryUnit) {
  PlanFollower follower(plan_message(two_clock_plan(3, 1200, 1500)), "Fake GPU", kSupported, kEverything);
  EXPECT_EQ(follower.units(), 6U);
  for (std::uint32_t microbatch = 0; microbatch < 3; ++microbatch) {
    EXPECT_EQ(follower.clock_mhz(begin(OpKind::forward, microbatch), {}), 1200);
    EXPECT_EQ(follower.clock_mhz(begin(OpKind::backward, microbatch), {}), 1500);
  }
}

TEST(PlanFollower, KnowsRecomputationsFromFusedUnits) {
  plan::Plan plan = plan::read_plan(two_clock_plan(1, 1200, 1500), "plan");
  plan.ranks.front().back().kind = OpKind::recomputing_backward;
  PlanFollower follower(plan_message(write_plan(plan)), "Fake GPU", kSupported, kEverything);
  EXPECT_EQ(follower.clock_mhz(begin(OpKind::recomputing_backward, 0), {}), 1500);
  EXPECT_FALSE(follower.clock_mhz(begin(OpKind::recomputation, 0), {}));
  EXPECT_FALSE(follower.clock_mhz(begin(OpKind::forward_backward, 0), {}));
}

TEST(PlanFollower, TakesAPlanForItsModel) {
  plan::Plan plan = plan::read_plan(two_clock_plan(1, 1200, 1500), "plan");
  plan.gpu_name = "Fake GPU";
  EXPECT_EQ(PlanFollower(plan_message(write_plan(plan)), "Fake GPU", kSupported, kEverything).units(), 2U);
}

TEST(PlanFollower, AsksAheadAsThePlanSays) {
  plan::Plan plan = plan::read_plan(two_clock_plan(1, 1200, 1500), "plan");
  EXPECT_EQ(PlanFollower(plan_message(write_plan(plan)), "Fake GPU", kSupported, kEverything).lead_ns(), 0);
  plan.clock_lead_s = 0.025;
  EXPECT_EQ(PlanFollower(plan_message(write_plan(plan)), "Fake GPU", kSupported, kEverything).lead_ns(), 25'000'000);
}

TEST(PlanFollower, HasNothingToSayAboutOtherEvents) {
  PlanFollower follower(plan_message(two_clock_plan(3, 1200, 1500)), "Fake GPU", kSupported, kEverything);
  EXPECT_FALSE(follower.clock_mhz(begin(OpKind::forward, 3), {}));
  EXPECT_FALSE(follower.clock_mhz(begin(OpKind::forward, 0, 1), {}));
  EXPECT_FALSE(follower.clock_mhz(begin(OpKind::weight_gradient, 0), {}));
  ipc::UnitEvent end = begin(OpKind::forward, 0);
  end.type = ipc::UnitEventType::unit_end;
  EXPECT_FALSE(follower.clock_mhz(end, {}));
  ipc::UnitEvent hostile = begin(OpKind::forward, 0xffffffff, 0xffff);
  hostile.kind = 255;
  EXPECT_FALSE(follower.clock_mhz(hostile, {}));
}

TEST(PlanFollower, RefusesAPlanThatDoesNotFit) {
  expect_refused(plan_message("{}"), kEverything, "format");
  expect_refused(plan_message("nonsense"), kEverything, "plan:1:");
  ipc::PlanMessage wrong_rank = plan_message(two_clock_plan(1, 1200, 1500));
  wrong_rank.plan_rank = 1;
  expect_refused(wrong_rank, kEverything, "no rank 1");
  plan::Plan other_model = plan::read_plan(two_clock_plan(1, 1200, 1500), "plan");
  other_model.gpu_name = "NVIDIA A100";
  expect_refused(plan_message(write_plan(other_model)), kEverything,
                 "is for \"NVIDIA A100\", and this GPU is \"Fake GPU\"");
  expect_refused(plan_message(two_clock_plan(1, 1300, 1500)), kEverything, "does not support; ask for the nearest");
  expect_refused(plan_message(two_clock_plan(1, 1200, 1500)),
                 {.min_clock_mhz = 345, .max_clock_mhz = 1400, .min_power_w = 0, .max_power_w = 0},
                 "may set 345 to 1400 MHz");
}

TEST(PlanFollower, ReadsPowerLimitsFromSettings) {
  plan::Plan plan = plan::read_plan(two_clock_plan(1, 1200, 1500), "plan");
  plan.ranks[0][0].setting = "pl:300";
  plan.ranks[0][1].setting = "sm12";
  const ipc::PlanMessage message = plan_message(write_plan(plan));
  AllowedRange allowed = kEverything;
  allowed.power = true;
  allowed.min_power_w = 200;
  allowed.max_power_w = 400;
  const PlanFollower follower(message, "Fake GPU", kSupported, allowed);
  EXPECT_EQ(follower.power_limit_w(begin(OpKind::forward, 0)), 300);
  EXPECT_EQ(follower.power_limit_w(begin(OpKind::backward, 0)), std::nullopt) << "another setting is left alone";
  EXPECT_EQ(follower.power_limit_w(begin(OpKind::forward, 7)), std::nullopt);
  allowed.max_power_w = 250;
  expect_refused(message, allowed, "at 300 W; this user may set 200 to 250 W");
  allowed.power = false;
  expect_refused(message, allowed, "would need power: true");
}

TEST(PlanFollower, TakesTheNearestBelowWhenAsked) {
  ipc::PlanMessage message = plan_message(two_clock_plan(1, 1499, 1501));
  message.nearest_below = true;
  PlanFollower follower(message, "Fake GPU", kSupported, kEverything);
  EXPECT_EQ(follower.clock_mhz(begin(OpKind::forward, 0), {}), 1200);
  EXPECT_EQ(follower.clock_mhz(begin(OpKind::backward, 0), {}), 1500);
  message.plan_json = two_clock_plan(1, 300, 1500);
  expect_refused(message, kEverything, "nor any clock below it");
}

ipc::UnitEvent iteration_begin(std::uint32_t iteration) {
  return {.time_ns = 0, .type = ipc::UnitEventType::iteration_begin, .kind = 0, .stage = 0, .microbatch = iteration};
}

TEST(PlanFollower, TriesClocksOutInTheirIterations) {
  ipc::PlanMessage message = plan_message(two_clock_plan(1, 1980, 1980));
  message.from_iteration = 4;
  message.trials = {{.first_iteration = 5, .iterations = 1, .clock_mhz = 1200},
                    {.first_iteration = 0xffffffff, .iterations = 2, .clock_mhz = 345}};
  PlanFollower follower(message, "Fake GPU", kSupported, kEverything);
  const auto clocks_of = [&](std::uint32_t iteration) {
    const auto at_begin = follower.clock_mhz(iteration_begin(iteration), iteration);
    const auto in_unit = follower.clock_mhz(begin(OpKind::backward, 0), iteration);
    EXPECT_EQ(at_begin.value_or(1980), in_unit) << iteration;
    EXPECT_FALSE(follower.clock_mhz(begin(OpKind::forward, 7), iteration)) << "a unit that the plan does not name";
    return in_unit;
  };
  EXPECT_EQ(clocks_of(4), 1980);
  EXPECT_EQ(clocks_of(5), 1200);
  EXPECT_EQ(clocks_of(6), 1980);
  EXPECT_EQ(clocks_of(0xffffffff), 345) << "iterations are counted modulo 2^32";
  EXPECT_EQ(clocks_of(0), 345);
  EXPECT_EQ(clocks_of(1), 1980);
}

TEST(PlanFollower, RefusesTrialsThatThisGpuOrUserMayNotRun) {
  ipc::PlanMessage message = plan_message(two_clock_plan(1, 1980, 1980));
  message.trials = {{.first_iteration = 5, .iterations = 1, .clock_mhz = 1300}};
  expect_refused(message, kEverything, "runs iteration 5 at 1300 MHz, which this GPU does not support");
  message.trials[0].clock_mhz = 0xffffffff;
  expect_refused(message, kEverything, "does not support");
  message.trials[0].clock_mhz = 345;
  expect_refused(message, {.min_clock_mhz = 600, .max_clock_mhz = 1980, .min_power_w = 0, .max_power_w = 0},
                 "may set 600 to 1980 MHz");
}

}  // namespace
}  // namespace lowgear::agent
