#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/json.h"
#include "server/simulated_job.h"

namespace lowgear {
namespace {

using testing::SizeIs;

class JobRestoreAfterDrift : public testing::Test {
 protected:
  /// Trains by a profile of units that take 1.6 times as long as when they were profiled first.
  void SetUp() override {
    training.register_all();
    ASSERT_TRUE(training.run_until(JobState::running));
    training.run(10);
    for (int rank = 0; rank < 2; ++rank) training.slow_down(rank, 1.6);
    ASSERT_TRUE(training.run_until(JobState::profiling, 60));
    ASSERT_TRUE(training.run_until(JobState::running));
    training.run(8);
  }
  [[nodiscard]] static JobSpec unguarded_job() {
    JobSpec spec = small_job(2);
    spec.guard_pct = 900;
    return spec;
  }
  /// Time of the fastest plan.
  [[nodiscard]] double fastest_s() { return training.job().frontier_json()["vertices"][0][0].get<double>(); }

  SimulatedJob training{unguarded_job()};
};

TEST_F(JobRestoreAfterDrift, PlansByTheNewestProfileAlone) {
  const double before_s = fastest_s();
  training.restart_server();
  training.run(60);
  EXPECT_NEAR(fastest_s(), before_s, before_s * 1e-6);
  EXPECT_THAT(training.reasons("drift"), SizeIs(1));
}

TEST_F(JobRestoreAfterDrift, ReadsAStateThatDoesNotNameTheSweep) {
  StoreContents stored = training.stored();
  Json state = Json::parse(stored.jobs.at(0).state);
  ASSERT_EQ(state.erase("sweep_first_version"), 1U);
  stored.jobs[0].state = state.dump();
  const auto restored = Job::restore(stored.jobs[0], stored, {}, training.now_s());
  EXPECT_EQ(restored->state(), JobState::running);
  EXPECT_NE(restored->measured(), nullptr);
}

TEST(JobRestoreWhileDrifting, TakesNoProfileUpThatDriftHasPutOutOfDate) {
  SimulatedJob training(small_job(2));
  training.register_all();
  ASSERT_TRUE(training.run_until(JobState::running));
  training.run(10);
  training.know({{training.job().profile_key(), training.job().measured()}});
  for (int rank = 0; rank < 2; ++rank) training.slow_down(rank, 1.3);
  training.measures_nothing[1] = true;
  ASSERT_TRUE(training.run_until(JobState::profiling, 60));
  ASSERT_TRUE(training.run_until(JobState::observing, 2'000));
  const int version = training.job().plan_version();
  training.restart_server();
  training.run(10);
  EXPECT_EQ(training.job().state(), JobState::observing);
  EXPECT_EQ(training.job().plan_version(), version);
}

/// A job whose ranks measure nothing: no profile can be made of that.
class JobRestoreWithoutAProfile : public testing::Test {
 protected:
  void SetUp() override {
    training.register_all();
    ASSERT_TRUE(training.run_until(JobState::profiling));
    while (training.job().state() == JobState::profiling) {
      const int version = training.job().plan_version();
      before = training.stored();
      for (int rank = 0; rank < 2; ++rank) {
        training.job().add_cells({.rank = rank, .plan_version = version, .cells = {}, .blocking = {}},
                                 training.now_s());
        training.settle();
      }
      ASSERT_LT(version, 50);
    }
    ASSERT_EQ(training.job().state(), JobState::observing);
  }

  SimulatedJob training{small_job(2)};
  StoreContents before;  ///< as stored before the last clock was measured
};

TEST_F(JobRestoreWithoutAProfile, GoesOnObserving) {
  const Json summary = training.job().summary();
  const int version = training.job().plan_version();
  training.restart_server();
  EXPECT_EQ(training.job().state(), JobState::observing);
  EXPECT_EQ(training.job().summary()["reason"], summary["reason"]);
  EXPECT_EQ(training.job().plan_version(), version);
  EXPECT_EQ(training.job().measured(), nullptr);
}

TEST_F(JobRestoreWithoutAProfile, UsesOneThatAnotherJobHasMeasured) {
  SimulatedJob other(small_job(2));
  other.register_all();
  ASSERT_TRUE(other.run_until(JobState::running));
  training.know({{training.job().profile_key(), other.job().measured()}});
  training.restart_server();
  EXPECT_TRUE(training.run_until(JobState::running));
  training.restart_server();
  EXPECT_EQ(training.job().state(), JobState::running);
  EXPECT_FALSE(training.job().frontier_json()["vertices"].empty());
}

TEST_F(JobRestoreWithoutAProfile, ObservesWhenTheServerEndedBeforeItCouldSaySo) {
  StoreContents rows = training.stored();
  Json state = Json::parse(rows.jobs.at(0).state);
  state["state"] = "profiling";
  rows.jobs[0].state = state.dump();
  rows.plans = before.plans;
  const auto restored = Job::restore(rows.jobs[0], rows, {}, training.now_s());
  for (int rank = 0; restored->state() == JobState::profiling && rank < 2; ++rank) {
    restored->add_cells({.rank = rank, .plan_version = restored->plan_version(), .cells = {}, .blocking = {}},
                        training.now_s());
  }
  EXPECT_EQ(restored->state(), JobState::observing);
  EXPECT_EQ(restored->summary()["purpose"], "train");
}

}  // namespace
}  // namespace lowgear
