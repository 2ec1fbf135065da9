#include "server/parts/profiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error.h"
#include "server/simulated_job.h"

namespace lowgear::server {
namespace {

using testing::HasSubstr;

const std::vector<int> kClocks{1410, 1305, 1200, 1095, 990, 885};

IterationMeans baseline() { return {.iterations = 5, .time_s = 2, .energy_j = {}}; }

TEST(Profiling, BeginsWithTheHighestClockAndKeepsToTheAllowance) {
  protocol::JobSpec spec = small_job(1);
  Profiling profiling;
  profiling.allow(spec, baseline());
  const std::vector<int> first = profiling.first_clocks(spec, kClocks, 2);
  EXPECT_EQ(first.front(), 1410);
  EXPECT_GE(first.size(), 3U);
  spec.profiling->allowance_pct = 1e-6;
  profiling.allow(spec, baseline());
  try {
    (void)profiling.first_clocks(spec, kClocks, 2);
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("raise allowance_pct of the job's profile"));
  }
}

TEST(Profiling, AddsTrialsThatItsAllowanceCovers) {
  const protocol::JobSpec spec = small_job(1);
  Profiling profiling;
  profiling.begin(3);
  profiling.allow(spec, baseline());
  PlanVersion version;
  ASSERT_TRUE(profiling.add_trials(version, spec, {1200}, {.mhz = 1410, .time_s = 2}, " once more"));
  EXPECT_EQ(version.sweep, 3);
  ASSERT_EQ(version.trials.size(), 1U);
  EXPECT_EQ(version.trials[0].clock_mhz, 1200);
  EXPECT_EQ(version.reason, "tries 1200 MHz in single iterations once more");
  profiling.budget().spend(1e9, 0);
  PlanVersion unchanged;
  EXPECT_FALSE(profiling.add_trials(unchanged, spec, {1200}, {.mhz = 1410, .time_s = 2}, ""));
  EXPECT_TRUE(unchanged.trials.empty());
  EXPECT_TRUE(unchanged.reason.empty());
}

TEST(Profiling, MergesWhatRanksMeasuredIntoAProfile) {
  Profiling profiling;
  profiling.begin(1);
  EXPECT_THROW(profiling.merge(1, true), InputError);  // nothing was measured
  EXPECT_EQ(profiling.own(), nullptr);
}

TEST(Profiling, IsStoredAndRestored) {
  const protocol::JobSpec spec = small_job(1);
  Profiling profiling;
  profiling.begin(3);
  profiling.allow(spec, baseline());
  profiling.sweep().want({1410, 1200});
  profiling.sweep().begin(4, 30, 1e9);
  profiling.budget().spend(2.5, 2);
  Json state;
  profiling.write_state(state);
  Profiling restored;
  restored.restore(JsonView(state, "state"), spec, baseline());
  restored.resume_version(JsonView(state, "state"), 1e9);
  Json again;
  restored.write_state(again);
  EXPECT_EQ(again.dump(), state.dump());
  EXPECT_EQ(restored.budget().left_s(), profiling.budget().left_s());
  const Json one_clock_after_the_other = {{"sweep_first_version", 7}};
  restored.restore(JsonView(one_clock_after_the_other, "state"), spec, baseline());
  EXPECT_EQ(restored.sweep().first_version(), 7);
}

}  // namespace
}  // namespace lowgear::server
