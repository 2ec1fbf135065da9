#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "server/simulated_job.h"

namespace lowgear {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// More iterations than any of these jobs needs to give a rank up.
constexpr int kPatience = 2'000;

JobSpec quickly_profiled(int pp, int dp) {
  JobSpec spec = small_job(pp, dp);
  spec.profiling->iterations = 1;
  spec.profiling->settle_iterations = 0;
  return spec;
}

/// Two stages of two ranks each: 0 and 1 are the first.
class JobProfiling2x2 : public testing::Test {
 protected:
  void begin_without(int silent_rank) {
    training.measures_nothing.at(static_cast<std::size_t>(silent_rank)) = true;
    training.register_all();
    training.run(5);
    ASSERT_EQ(training.job().state(), JobState::profiling);
    ASSERT_EQ(training.job().plan_version(), 1);
  }

  SimulatedJob training{quickly_profiled(2, 2)};
};

TEST_F(JobProfiling2x2, GoesOnWithoutARankWhoseStageIsMeasuredElsewhere) {
  begin_without(3);
  ASSERT_TRUE(training.run_until(JobState::running, kPatience));
  EXPECT_THAT(training.reasons("plan"), Contains(HasSubstr("once more: nothing has come from rank 3 in")));
  EXPECT_THAT(training.reasons("profile"), Contains(HasSubstr("nothing comes from rank 3 at")));
  training.run(6);
  EXPECT_GT(training.job().summary()["saved_pct"].get<double>(), 1);
}

TEST_F(JobProfiling2x2, WaitsForASilentRankAtOneClockOnly) {
  begin_without(3);
  ASSERT_TRUE(training.run_until(JobState::running, kPatience));
  const auto is_repetition = [](const std::string& reason) { return reason.find("once more") != std::string::npos; };
  EXPECT_EQ(std::ranges::count_if(training.reasons("plan"), is_repetition), 1);
}

TEST_F(JobProfiling2x2, GivesARankTimeToMeasure) {
  begin_without(3);
  const double began_s = training.now_s();
  training.run(20);  // as many as a client takes that cannot tell energies apart
  EXPECT_EQ(training.job().plan_version(), 1);
  while (training.job().plan_version() == 1) training.run(1);
  EXPECT_GT(training.now_s(), began_s + 9);
}

TEST_F(JobProfiling2x2, MeasuresAClockAgainForARankThatHasLostIt) {
  begin_without(3);
  while (training.job().plan_version() == 1) training.run(1);
  training.measures_nothing[3] = false;
  ASSERT_TRUE(training.run_until(JobState::running));
  EXPECT_THAT(training.reasons("profile"), Not(Contains(HasSubstr("nothing comes from"))));
}

TEST_F(JobProfiling2x2, DoesNotWaitForARankThatHasEnded) {
  begin_without(3);
  training.job().finish_rank(3, training.now_s());
  training.settle();
  EXPECT_EQ(training.job().plan_version(), 2);
  EXPECT_TRUE(training.run_until(JobState::running, 60));
}

TEST_F(JobProfiling2x2, TakesNoCellsOfARankThatHasEndedForThoseOfAnother) {
  begin_without(3);
  training.job().finish_rank(2, training.now_s());
  training.settle();
  EXPECT_EQ(training.job().plan_version(), 1) << "rank 3 still measures";
}

TEST_F(JobProfiling2x2, GoesOnWithoutARankThoughTheServerWasStartedAgain) {
  begin_without(3);
  while (training.job().plan_version() == 1) training.run(1);
  training.restart_server();
  EXPECT_TRUE(training.run_until(JobState::running, kPatience));
}

TEST(JobProfiling, SharesNoProfileOfSimulatedGpusWithRealOnes) {
  SimulatedJob first(quickly_profiled(2, 1));
  first.gpus_are_simulated = true;
  first.register_all();
  ASSERT_TRUE(first.run_until(JobState::running));
  for (const bool simulated : {true, false}) {
    SimulatedJob second(quickly_profiled(2, 1));
    second.gpus_are_simulated = simulated;
    second.know({{first.job().profile_key(), first.job().measured()}});
    second.register_all();
    EXPECT_EQ(second.job().state(), simulated ? JobState::baseline : JobState::profiling);
    second.restart_server();
    EXPECT_EQ(second.job().state(), simulated ? JobState::baseline : JobState::profiling);
  }
}

TEST(JobProfiling, MeasuresTheBaselineAnewForAProfileThatIsFoundLater) {
  SimulatedJob other(quickly_profiled(2, 1));
  other.register_all();
  ASSERT_TRUE(other.run_until(JobState::running));
  SimulatedJob training(quickly_profiled(2, 1));
  training.register_all();
  training.run(3);
  training.measures_nothing[1] = true;
  ASSERT_TRUE(training.run_until(JobState::observing, kPatience));
  training.job().profile_found(other.job().measured(), training.now_s());
  training.run(2);
  EXPECT_EQ(training.job().state(), JobState::baseline);
  EXPECT_TRUE(training.run_until(JobState::running, 20));
}

TEST(JobProfiling, ObservesAtFullClocksWhenNobodyMeasuresAStage) {
  SimulatedJob training(quickly_profiled(2, 1));
  training.register_all();
  training.run(3);
  training.measures_nothing[1] = true;
  ASSERT_TRUE(training.run_until(JobState::observing, kPatience));
  EXPECT_THAT(training.job().summary()["reason"].get<std::string>(), HasSubstr("rank 1 measures nothing at"));
  const Json plan = Json::parse(*training.job().plan_after(0, 0, training.now_s()));
  EXPECT_EQ(plan["purpose"], "train");
  for (const Json& op : plan["plan"]["stages"][0]["ops"]) {
    EXPECT_EQ(op["mhz"], training.rank_spec(0).clocks_mhz.front());
  }
  EXPECT_THAT(training.reasons("failed"), IsEmpty());
}

}  // namespace
}  // namespace lowgear
