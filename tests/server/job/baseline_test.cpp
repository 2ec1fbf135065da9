#include "server/job/baseline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lowgear::server {

namespace {

std::vector<JobIteration> of_times(const std::vector<double>& times_s) {
  std::vector<JobIteration> iterations;
  for (const double time_s : times_s) {
    iterations.emplace_back();
    iterations.back().time_s = time_s;
    iterations.back().energy_j = 100 * time_s;
  }
  return iterations;
}

TEST(IterationMeans, OfNone) { EXPECT_EQ(means_of({}).iterations, 0); }

TEST(IterationMeans, OfOneHaveNoScatterButTheErrorOfItsMeter) {
  std::vector<JobIteration> iterations = of_times({2});
  iterations[0].energy_error_j = 3;
  const IterationMeans means = means_of(iterations);
  EXPECT_EQ(means.iterations, 1);
  EXPECT_DOUBLE_EQ(means.time_s, 2);
  EXPECT_EQ(means.time_error_s, 0);
  EXPECT_DOUBLE_EQ(means.energy_error_j, 3);
}

TEST(IterationMeans, HaveErrorsFromTheScatter) {
  const IterationMeans means = means_of(of_times({1, 1.2, 1.4}));
  EXPECT_DOUBLE_EQ(means.time_s, 1.2);
  EXPECT_NEAR(means.time_spread_s, 0.2, 1e-12);
  EXPECT_NEAR(means.time_error_s, 0.2 / std::sqrt(3), 1e-12);
  EXPECT_DOUBLE_EQ(means.energy_j.value_or(0), 120);
  EXPECT_NEAR(means.energy_error_j, 20 / std::sqrt(3), 1e-10);
}

TEST(IterationMeans, HaveErrorsOfTheMetersWhereThoseAreLarger) {
  std::vector<JobIteration> iterations = of_times({1, 1, 1, 1});
  for (JobIteration& iteration : iterations) iteration.energy_error_j = 6;
  EXPECT_NEAR(means_of(iterations).energy_error_j, 3, 1e-12);
}

TEST(IterationMeans, HaveTheEnergyOfThoseThatHaveOneWhereMostDo) {
  std::vector<JobIteration> iterations = of_times({1, 1.2, 1.4});
  iterations[1].energy_j.reset();
  EXPECT_NEAR(means_of(iterations).energy_j.value_or(0), 120, 1e-12);
  EXPECT_EQ(means_of(iterations).unmeasured, 1);
  iterations.pop_back();
  EXPECT_FALSE(means_of(iterations).energy_j);
  EXPECT_EQ(means_of(iterations).unmeasured, 1);
}

TEST(IterationMeans, LeaveStallsOut) {
  std::vector<double> times_s(20, 1.0);
  times_s[7] = 30;
  times_s[11] = 2.1;
  times_s[12] = 1.9;
  const IterationMeans means = means_of(of_times(times_s));
  EXPECT_EQ(means.iterations, 18);
  EXPECT_EQ(means.stalled, 2);
  EXPECT_NEAR(means.time_s, 1.05, 1e-12);
  EXPECT_NEAR(means.energy_j.value_or(0), 105, 1e-10);
}

TEST(IterationMeans, CountAllWhereManyStall) {
  const IterationMeans means = means_of(of_times({1, 1, 1, 5, 5}));
  EXPECT_EQ(means.iterations, 5);
  EXPECT_EQ(means.stalled, 0);
  EXPECT_DOUBLE_EQ(means.time_s, 2.6);
  EXPECT_GT(means.time_error_s, 0.9);
  EXPECT_EQ(means_of(of_times({1, 30})).stalled, 0);
  EXPECT_EQ(means_of(of_times({1, 30, 1, 1})).stalled, 1);
}

JobIteration predicted(double predicted_s, double units_s, double time_s) {
  JobIteration iteration = of_times({time_s}).front();
  iteration.predicted_time_s = predicted_s;
  iteration.units_time_s = units_s;
  return iteration;
}

TEST(IterationMeans, JudgeStallsByThePredictionsOfIterations) {
  // By their median the long ones would have stalled, and the third would not.
  std::vector<JobIteration> iterations{predicted(1, 1, 1.1),    predicted(5, 5, 5.1), predicted(1, 2.1, 2.15),
                                       predicted(1, 1, 1.2),    predicted(1, 1, 1.1), predicted(9, 9, 9.1),
                                       predicted(1, 1.9, 1.95), predicted(1, 1, 1.1)};
  const IterationMeans means = means_by_predictions(iterations);
  EXPECT_EQ(means.iterations, 7);
  EXPECT_EQ(means.stalled, 1);
  EXPECT_NEAR(means.time_s, (1.1 + 5.1 + 1.2 + 1.1 + 9.1 + 1.95 + 1.1) / 7, 1e-12);
  EXPECT_EQ(means_of(iterations).stalled, 2) << "as of any other job";
  for (JobIteration& iteration : iterations) iteration.predicted_time_s.reset();
  EXPECT_EQ(means_by_predictions(iterations).iterations, 8) << "no length is known";
  EXPECT_EQ(means_by_predictions({}).iterations, 0);
  EXPECT_FALSE(means_by_predictions({}).energy_j);
}

TEST(IterationMeans, CountAllWhereEveryPredictionIsFarOff) {
  const std::vector<JobIteration> iterations{predicted(1, 3, 3), predicted(1, 4, 4)};
  const IterationMeans means = means_by_predictions(iterations);
  EXPECT_EQ(means.iterations, 2);
  EXPECT_EQ(means.stalled, 2) << "which is said";
  EXPECT_DOUBLE_EQ(means.time_s, 3.5);
}

TEST(PredictionError, IsOfUnitsThatHaveNotStalled) {
  const std::deque<JobIteration> iterations{predicted(1.1, 1, 1.5), predicted(1.9, 2, 2.5), predicted(1, 2.5, 3),
                                            of_times({4}).front()};
  const auto error = prediction_error(iterations);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->iterations, 2);
  EXPECT_EQ(error->stalled, 1);
  EXPECT_NEAR(error->mean, (0.1 - 0.05) / 2, 1e-12);
  EXPECT_NEAR(error->rms, std::sqrt((0.01 + 0.0025) / 2), 1e-12);
  EXPECT_FALSE(prediction_error({}));
  EXPECT_FALSE(prediction_error({of_times({4}).front()}));
}

TEST(PredictionError, CountsIterationsThatHaveAllStalled) {
  const auto error = prediction_error({predicted(1, 2.5, 3), predicted(1, 3, 3), of_times({4}).front()});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->iterations, 0);
  EXPECT_EQ(error->stalled, 2);
}

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
  for (const auto& [number, time_s] :
       {std::pair{9, 9.0}, std::pair{10, 9.0}, std::pair{11, 1.75}, std::pair{12, 2.0}}) {
    add(number, time_s);
    EXPECT_FALSE(measurement.result());
  }
  EXPECT_EQ(measurement.counted(), 2);
  add(13, 2.25);
  ASSERT_TRUE(measurement.result());
  EXPECT_DOUBLE_EQ(measurement.result()->time_s, 2);
  EXPECT_DOUBLE_EQ(measurement.result()->time_spread_s, 0.25);
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

TEST_F(BaselineTest, WaitsForMoreIterationsWhileStallsDecideTheMean) {
  int number = 10;
  for (const double time_s : {9.0, 1.4, 21.0, 1.3, 5.0, 1.4, 1.3, 1.4}) {
    EXPECT_FALSE(measurement.result()) << number;
    add(number++, time_s);
  }
  EXPECT_FALSE(measurement.result()) << "two of seven stalled";
  add(number, 1.3);
  ASSERT_TRUE(measurement.result());
  EXPECT_EQ(measurement.result()->stalled, 2);
  EXPECT_NEAR(measurement.result()->time_s, 1.35, 1e-12);
}

TEST_F(BaselineTest, LeavesStallsOutInTheEndHoweverMany) {
  for (int i = 0; i <= 12; ++i) {
    EXPECT_FALSE(measurement.result()) << i;
    add(10 + i, i % 2 == 0 ? 1 : 5);
  }
  ASSERT_TRUE(measurement.result());
  EXPECT_EQ(measurement.result()->iterations, 6);
  EXPECT_EQ(measurement.result()->stalled, 6);
  EXPECT_DOUBLE_EQ(measurement.result()->time_s, 1);
}

TEST_F(BaselineTest, IsUncertainWhereItsIterationsHaveNoUsualTime) {
  for (int i = 0; i <= 12; ++i) add(10 + i, std::pow(1.5, i));
  ASSERT_TRUE(measurement.result());
  EXPECT_TRUE(measurement.result()->is_uncertain());
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
  for (int i = 0; i < 4; ++i) add(10 + i, 1 + 0.1 * i);
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
