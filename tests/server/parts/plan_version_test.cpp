#include "server/parts/plan_version.h"

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "planning/plan/plan_json.h"
#include "planning/plan/uniform_plan.h"
#include "server/planning/job_schedule.h"
#include "server/simulated_job.h"

namespace lowgear::server {
namespace {

PlanVersion version() {
  const schedule::Schedule schedule = make_schedule(small_job(2, 3, 4));
  PlanVersion version;
  version.version = 3;
  version.from_iteration = 128;
  version.reason = "a \"reason\"\n";
  version.time_s = 2.5;
  version.energy_j = 100;
  version.plans = {plan::uniform_plan(schedule, 1410, "max"), plan::uniform_plan(schedule, 900, "slow")};
  version.plan_of_replica = {0, 1, 1};
  version.expected_compute_s = {{1.5, 1.25}, {2, 2}};
  return version;
}

TEST(PlanVersion, ReadsBackWhatItWrites) {
  const std::string text = write_plan_version(version());
  EXPECT_EQ(write_plan_version(read_plan_version(text)), text);
  EXPECT_EQ(read_plan_version(text).plan_of(2).ranks[0][0].clock_mhz, 900);
}

TEST(PlanVersion, RefusesReplicasWithoutAPlan) {
  Json document = Json::parse(write_plan_version(version()));
  document["plan_of_replica"] = {0, 1, 2};
  EXPECT_THROW((void)read_plan_version(document.dump()), InputError);
  document["plan_of_replica"] = {0, 1, -1};
  EXPECT_THROW((void)read_plan_version(document.dump()), InputError);
  document["purpose"] = "none";
  EXPECT_THROW((void)read_plan_version(document.dump()), InputError);
}

TEST(RankPlanTexts, GivesEachRankItsOwnOps) {
  const PlanVersion of = version();
  RankPlanTexts texts(of);
  const Json plan = Json::parse(*texts.text(1, 1, 200));
  EXPECT_EQ(plan["version"], 3);
  EXPECT_EQ(plan["from_iteration"], 200);
  EXPECT_EQ(plan["reason"], of.reason);
  ASSERT_EQ(plan["plan"]["stages"].size(), 1U);
  const plan::Plan own = plan::read_plan(plan["plan"].dump(), "plan");
  ASSERT_EQ(own.ranks[0].size(), of.plans[1].ranks[1].size());
  EXPECT_EQ(own.ranks[0][0].clock_mhz, 900);
}

TEST(RankPlanTexts, MakesATextOnceForAllThatGetTheSame) {
  const PlanVersion of = version();
  RankPlanTexts texts(of);
  EXPECT_EQ(texts.text(1, 0, 128), texts.text(2, 0, 128));
  EXPECT_NE(texts.text(0, 0, 128), texts.text(1, 0, 128));
  EXPECT_NE(texts.text(0, 0, 128), texts.text(0, 0, 129));
}

}  // namespace
}  // namespace lowgear::server
