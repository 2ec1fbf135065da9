#include "server/parts/baseline.h"

#include <gtest/gtest.h>

namespace lowgear::server {
namespace {

class BaselineTest : public testing::Test {
 protected:
  BaselineTest() {
    plan.version = 4;
    plan.from_iteration = 10;
    plan.iterations = 3;
    plan.settle_iterations = 1;
    measurement.begin(4, 1e9);
  }
  void add(std::int64_t number, double time_s, int plan_version = 4) {
    JobIteration iteration;
    iteration.iteration = number;
    iteration.plan_version = plan_version;
    iteration.newest_version = 4;
    iteration.time_s = time_s;
    iteration.energy_j = 100 * time_s;
    measurement.add(iteration, &plan);
  }

  PlanVersion plan;
  BaselineMeasurement measurement;
};

TEST_F(BaselineTest, IsTheMeanOfIterationsAfterTheFirst) {
  for (const auto& [number, time_s] : {std::pair{9, 9.0}, std::pair{10, 9.0}, std::pair{11, 1.0}, std::pair{12, 2.0}}) {
    add(number, time_s);
    EXPECT_FALSE(measurement.result());
  }
  EXPECT_EQ(measurement.counted(), 2);
  add(13, 3);
  ASSERT_TRUE(measurement.result());
  EXPECT_DOUBLE_EQ(measurement.result()->time_s, 2);
  EXPECT_DOUBLE_EQ(measurement.result()->time_spread_s, 1);
  EXPECT_DOUBLE_EQ(measurement.result()->energy_j.value_or(0), 200);
  add(14, 100);  // it is measured
  EXPECT_DOUBLE_EQ(measurement.result()->time_s, 2);
}

TEST_F(BaselineTest, WaitsForRanksThatDoNotFollowYetButNotForEver) {
  add(10, 1, kMixedPlans);
  add(20, 1, kMixedPlans);
  EXPECT_EQ(measurement.counted(), 0);
  add(35, 1, kMixedPlans);
  EXPECT_EQ(measurement.counted(), 1);
  measurement.add({}, nullptr);  // its plan is lost
  EXPECT_EQ(measurement.counted(), 1);
}

TEST_F(BaselineTest, CountsFromWhereTheJobContinues) {
  plan.from_iteration = 0;  // no iteration was known
  add(60, 9);
  EXPECT_EQ(measurement.counted(), 0);
  add(61, 1);
  EXPECT_EQ(measurement.counted(), 1);
  EXPECT_EQ(measurement.first_iteration(plan), 60);
}

TEST_F(BaselineTest, WaitsForOneMoreWhenAnIterationStalls) {
  plan.iterations = 4;
  for (const auto& [number, time_s] :
       {std::pair{10, 9.0}, std::pair{11, 1.0}, std::pair{12, 30.0}, std::pair{13, 1.0}, std::pair{14, 1.2}}) {
    add(number, time_s);
    EXPECT_FALSE(measurement.result()) << number;
  }
  add(15, 0.8);
  ASSERT_TRUE(measurement.result());
  EXPECT_EQ(measurement.result()->stalled, 1);
  EXPECT_DOUBLE_EQ(measurement.result()->time_s, 1);
}

TEST_F(BaselineTest, BeginsAnew) {
  for (int i = 0; i < 4; ++i) add(10 + i, 1);
  ASSERT_TRUE(measurement.result());
  measurement.begin(5, 2e9);
  EXPECT_FALSE(measurement.result());
  EXPECT_EQ(measurement.counted(), 0);
  EXPECT_EQ(measurement.plan_version(), 5);
}

TEST_F(BaselineTest, IsStoredAndRestored) {
  for (int i = 0; i < 4; ++i) add(10 + i, 1 + i);
  for (const bool with_energy : {true, false}) {
    IterationMeans baseline = *measurement.result();
    if (!with_energy) baseline.energy_j.reset();
    measurement.renew(baseline);
    Json state;
    measurement.write_state(state);
    BaselineMeasurement restored;
    restored.restore(JsonView(state, "state"));
    Json again;
    restored.write_state(again);
    EXPECT_EQ(again, state);
    EXPECT_EQ(restored.result()->energy_j.has_value(), with_energy);
  }
}

}  // namespace
}  // namespace lowgear::server
