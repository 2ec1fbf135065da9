#include "server/job/plan_version.h"

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "planning/plan/plan.h"
#include "planning/plan/plan_json.h"
#include "server/planning/planning_inputs.h"
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
  PlanVersion of = version();
  of.plans[1].simulated = true;
  RankPlanTexts texts(of);
  const Json plan = Json::parse(*texts.text(1, 1, 200));
  EXPECT_EQ(plan["version"], 3);
  EXPECT_EQ(plan["from_iteration"], 200);
  EXPECT_EQ(plan["reason"], of.reason);
  ASSERT_EQ(plan["plan"]["stages"].size(), 1U);
  const plan::Plan own = plan::read_plan(plan["plan"].dump(), "plan");
  ASSERT_EQ(own.ranks[0].size(), of.plans[1].ranks[1].size());
  EXPECT_EQ(own.ranks[0][0].clock_mhz, 900);
  EXPECT_TRUE(own.simulated);
}

TEST(RankPlanTexts, MakesATextOnceForAllThatGetTheSame) {
  const PlanVersion of = version();
  RankPlanTexts texts(of);
  EXPECT_EQ(texts.text(1, 0, 128), texts.text(2, 0, 128));
  EXPECT_NE(texts.text(0, 0, 128), texts.text(1, 0, 128));
  EXPECT_NE(texts.text(0, 0, 128), texts.text(0, 0, 129));
}

PlanVersion plan(protocol::PlanPurpose purpose = protocol::PlanPurpose::train) {
  PlanVersion version;
  version.purpose = purpose;
  version.plans = {plan::uniform_plan(make_schedule(small_job(1)), 1410, "max")};
  version.plan_of_replica = {0};
  return version;
}

class PlanDeliveryTest : public testing::Test {
 protected:
  void train_to(std::int64_t iteration) {
    protocol::RankReports reports;
    reports.reports.push_back({.iteration = iteration, .time_s = 1, .compute_s = 1, .energy_j = {}});
    (void)history.add(reports, now_s);
    while (const auto next = history.next(now_s)) history.keep(*next, 0);
  }
  /// The iteration from which the rank is to follow the newest plan; -1: it receives none.
  std::int64_t offered(int after = 0) {
    const auto text = plans.plan_after(protocol::RankSpec{}, after, history, now_s);
    return text ? Json::parse(*text)["from_iteration"].get<std::int64_t>() : -1;
  }
  [[nodiscard]] Json state() const {
    Json state;
    plans.write_state(state);
    return state;
  }

  double now_s = 1e9;
  IterationHistory history{1};
  PlanDelivery plans;
};

TEST_F(PlanDeliveryTest, NumbersPlansAndCountsTrialsFromTheirBoundary) {
  EXPECT_EQ(offered(), -1);
  EXPECT_EQ(plans.issue(plan(), history, now_s).version, 1);
  train_to(5);
  PlanVersion trials = plan(protocol::PlanPurpose::profile);
  trials.trials = {{.first_iteration = 1, .iterations = 2, .clock_mhz = 900}};
  const PlanVersion& issued = plans.issue(trials, history, now_s);
  EXPECT_EQ(issued.version, 2);
  EXPECT_EQ(issued.from_iteration, 7);
  EXPECT_EQ(issued.trials[0].first_iteration, 8);
  EXPECT_EQ(plans.newest(), &issued);
  EXPECT_EQ(plans.due_version(6), 1);
  EXPECT_EQ(plans.due_version(7), 2);
  EXPECT_EQ(plans.find(3), nullptr);
}

TEST_F(PlanDeliveryTest, OffersRanksThatHaveMissedAPlanOneBoundary) {
  (void)plans.issue(plan(), history, now_s);
  EXPECT_EQ(offered(), 0);
  EXPECT_EQ(offered(1), -1);
  train_to(3);
  EXPECT_EQ(offered(), 5);
  now_s += 0.99;
  EXPECT_EQ(offered(), 5);  // all that ask begin together
  train_to(4);
  EXPECT_EQ(offered(), 6);  // it has been missed again
  (void)plans.issue(plan(), history, now_s);
  EXPECT_EQ(offered(1), plans.newest()->from_iteration);
}

TEST_F(PlanDeliveryTest, KeepsTheLastPlansAndTheOneToTrainBy) {
  EXPECT_EQ(plans.training_version(), 0);
  (void)plans.issue(plan(), history, now_s);
  (void)plans.issue(plan(), history, now_s);
  plans.train_by_newest();
  for (std::size_t i = 0; i < PlanDelivery::kKeptVersions; ++i) (void)plans.issue(plan(), history, now_s);
  EXPECT_EQ(plans.find(2), nullptr);
  ASSERT_NE(plans.training(), nullptr);
  EXPECT_EQ(plans.training_version(), 2);
  plans.train_by_newest();
  EXPECT_EQ(plans.training(), plans.newest());
  EXPECT_EQ(plans.first_training_version(), 2);
}

TEST_F(PlanDeliveryTest, GivesNoNumberASecondTimeAfterARestart) {
  (void)plans.issue(plan(), history, now_s);
  plans.train_by_newest();
  const Json stored = state();
  const PlanVersion first = *plans.newest();
  PlanDelivery restored;
  restored.restore(first);
  restored.restore_numbers(JsonView(stored, "state"));
  EXPECT_EQ(restored.training(), restored.newest());
  // Plans that were issued since and are on no disk.
  for (int i = 0; state() == stored; ++i) {
    ASSERT_LE(i, 2 * PlanDelivery::kReservedVersions);
    (void)plans.issue(plan(), history, now_s);
  }
  EXPECT_GE(restored.issue(plan(), history, now_s).version, plans.newest_version());
}

TEST_F(PlanDeliveryTest, RefusesADamagedState) {
  const Json damaged = {{"reserved_version", 0}, {"training_version", -1}, {"first_training_version", 0}};
  EXPECT_THROW(plans.restore_numbers(JsonView(damaged, "state")), InputError);
}

}  // namespace

}  // namespace lowgear::server
