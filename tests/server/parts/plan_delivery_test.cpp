#include "server/parts/plan_delivery.h"

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "planning/plan/uniform_plan.h"
#include "server/simulated_job.h"

namespace lowgear::server {
namespace {

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

TEST_F(PlanDeliveryTest, ReadsStatesOfServersThatReservedNoNumbers) {
  const Json old = {{"training_version", 0}, {"first_training_version", 0}};
  plans.restore_numbers(JsonView(old, "state"));
  EXPECT_EQ(plans.issue(plan(), history, now_s).version, 1);
  const Json damaged = {{"training_version", -1}, {"first_training_version", 0}};
  EXPECT_THROW(plans.restore_numbers(JsonView(damaged, "state")), InputError);
}

}  // namespace
}  // namespace lowgear::server
