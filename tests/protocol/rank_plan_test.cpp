#include "protocol/rank_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"
#include "protocol/one_op_plan.h"
#include "protocol/random_document.h"

namespace lowgear::protocol {
namespace {

using testing::HasSubstr;

Json offered() {
  return {{"version", 3},
          {"purpose", "profile"},
          {"from_iteration", 128},
          {"sweep", 2},
          {"trials", {{{"first_iteration", 130}, {"iterations", 2}, {"clock_mhz", 990}}}},
          {"settle_iterations", 1},
          {"settle_s", 0.1},
          {"plan", one_op_plan()}};
}

TEST(RankPlan, IsRead) {
  const RankPlan plan = read_rank_plan(offered().dump(), "server");
  EXPECT_EQ(plan.version, 3);
  EXPECT_EQ(plan.purpose, PlanPurpose::profile);
  EXPECT_EQ(plan.from_iteration, 128);
  EXPECT_EQ(plan.sweep, 2);
  EXPECT_THAT(plan.trials, testing::ElementsAre(plan::ClockTrial{130, 2, 990}));
  EXPECT_EQ(plan.settle_iterations, 1);
  EXPECT_EQ(plan.settle_s, 0.1);
  EXPECT_EQ(plan::read_plan(plan.plan_json, "plan").ranks[0][0].clock_mhz, 1200);
}

TEST(RankPlan, IsRefusedWhereItIsNone) {
  const auto error_with = [](const char* member, const Json& value) {
    Json wrong = offered();
    wrong[member] = value;
    return error_of([&] { (void)read_rank_plan(wrong.dump(), "server"); });
  };
  EXPECT_THAT(error_with("version", 0), HasSubstr("$.version"));
  EXPECT_THAT(error_with("from_iteration", -1), HasSubstr("$.from_iteration"));
  EXPECT_THAT(error_with("from_iteration", 1e300), HasSubstr("$.from_iteration"));
  EXPECT_THAT(error_with("sweep", 0), HasSubstr("$.sweep"));
  EXPECT_THAT(error_with("trials", nullptr), HasSubstr("$.trials"));
  EXPECT_THAT(error_with("settle_iterations", -1), HasSubstr("$.settle_iterations"));
  EXPECT_THAT(error_with("settle_s", 1e9), HasSubstr("$.settle_s"));
  EXPECT_THAT(error_with("purpose", 7), HasSubstr("$.purpose"));
  EXPECT_THAT(error_with("plan", Json::object()), HasSubstr("plan"));
  EXPECT_THAT(error_with("plan", nullptr), HasSubstr("plan"));
  EXPECT_NE(error_of([] { (void)read_rank_plan("", "server"); }), "no error");
}

TEST(RankPlan, IsFollowedWhateverItIsFor) {
  Json plan = offered();
  plan["purpose"] = "of a later release";
  EXPECT_EQ(read_rank_plan(plan.dump(), "server").purpose, PlanPurpose::train);
  EXPECT_FALSE(is_plan_purpose("of a later release"));
  for (const PlanPurpose purpose :
       {PlanPurpose::baseline, PlanPurpose::profile, PlanPurpose::train, PlanPurpose::full_clocks}) {
    EXPECT_TRUE(is_plan_purpose(name(purpose)));
  }
}

TEST(RankPlan, HasOneFormOnTheWire) {
  RankPlan plan;
  plan.version = 3;
  plan.purpose = PlanPurpose::profile;
  plan.from_iteration = 128;
  plan.reason = "a \"reason\"";
  plan.settle_iterations = 1;
  plan.trials = {{131, 1, 990}};
  plan.settle_s = 0.25;
  plan.sweep = 2;
  plan.time_s = 2.41;
  plan.plan_json = "{}";
  EXPECT_EQ(write_rank_plan(plan),
            R"({"version":3,"purpose":"profile","from_iteration":128,"iterations":0,"settle_iterations":1,)"
            R"("trials":[{"first_iteration":131,"iterations":1,"clock_mhz":990}],"settle_s":0.25,"sweep":2,)"
            R"("reason":"a \"reason\"","time_s":2.41,"energy_j":null,"plan":{}})");
}

PlanHead random_head(RandomDocument& random) {
  PlanHead head;
  head.version = random.whole(1, 1 << 30);
  head.purpose = static_cast<PlanPurpose>(random.whole(0, 3));
  head.from_iteration = random.whole64(0, std::int64_t{1} << 40);
  head.reason = random.name();
  head.iterations = random.whole(0, 10'000);
  head.settle_iterations = random.whole(0, 1'000);
  head.settle_s = random.number(0, 10);
  head.sweep = random.whole(1, 1 << 30);
  head.time_s = random.number(0, 1e6);
  head.energy_j = random.number(0, 1e9);
  std::int64_t iteration = head.from_iteration;
  for (int left = random.whole(0, 4); left > 0; --left) {
    iteration += random.whole(1, 9);
    head.trials.push_back({.first_iteration = iteration, .iterations = 1, .clock_mhz = random.whole(200, 2'000)});
  }
  return head;
}

TEST(RankPlan, ReadsBackAnythingThatItWrites) {
  RandomDocument random;
  const std::string plan_json = one_op_plan().dump();
  for (int round = 0; round < kRoundTrips; ++round) {
    const RankPlan plan{random_head(random), plan_json};
    const std::string text = write_rank_plan(plan);
    EXPECT_EQ(read_rank_plan(text, "server"), plan) << text;
  }
}

}  // namespace
}  // namespace lowgear::protocol
