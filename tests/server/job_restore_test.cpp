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

}  // namespace
}  // namespace lowgear
