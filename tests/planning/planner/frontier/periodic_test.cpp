#include "planning/planner/frontier/periodic.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "planning/planner/planners/planning_model.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"

namespace lowgear::planner {
namespace {

/// A profile of which every stage but the last is alike, as pipelines of equal transformer layers have.
profile::StageProfile profile_of(int stages, double last_stage_factor, double spread, unsigned seed) {
  std::mt19937_64 random(seed);
  const auto factor = [&] { return 1 + spread * (static_cast<double>(random() % 2001) / 1000 - 1); };
  profile::StageProfile profile(stages);
  for (int stage = 0; stage < stages; ++stage) {
    const double scale = (stage + 1 == stages ? last_stage_factor : 1) * factor();
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      const double work = (kind == OpKind::forward ? 1.0 : 2.0) * scale;
      for (const int clock_mhz : {1400, 1200, 1000, 800}) {
        const double time_s = work * (0.004 + 22.0 / clock_mhz);
        const double power_w = 90 + 0.12 * clock_mhz * (0.7 + clock_mhz / 4000.0);
        profile.add(stage, kind, {clock_mhz, time_s, power_w * time_s});
      }
    }
  }
  return profile;
}

InstanceOfMicrobatches pipeline_of(const profile::StageProfile& profile) {
  return [&profile](int microbatches) {
    schedule::ScheduleRequest request;
    request.name = "1f1b";
    request.ranks = profile.stages();
    request.microbatches = microbatches;
    const std::vector<double> blocking_power_w(static_cast<std::size_t>(profile.stages()), 80);
    return make_planning_model(build_dag(make_schedule(request)), profile, blocking_power_w).instance;
  };
}

void expect_equal(const Frontier& found, const Frontier& expected) {
  ASSERT_EQ(found.vertices().size(), expected.vertices().size());
  for (std::size_t k = 0; k < found.vertices().size(); ++k) {
    EXPECT_EQ(found.vertices()[k].time_ps, expected.vertices()[k].time_ps) << "vertex " << k;
    EXPECT_TRUE(found.vertices()[k].effective_energy_zj == expected.vertices()[k].effective_energy_zj)
        << "vertex " << k;
  }
  for (int i = 0; i <= 50; ++i) {
    const TimePs time_ps = found.fastest_ps() + (found.slowest_ps() - found.fastest_ps()) / 50 * i;
    EXPECT_DOUBLE_EQ(found.lower_bound_j_at(time_ps), expected.lower_bound_j_at(time_ps));
  }
}

TEST(SolvePeriodic, EqualsTheSolvedFrontier) {
  for (const double last_stage_factor : {1.0, 1.07, 0.9}) {
    const profile::StageProfile profile = profile_of(4, last_stage_factor, 0, 1);
    const InstanceOfMicrobatches pipeline = pipeline_of(profile);
    const auto periodic = solve_periodic(pipeline, 80, 4);
    ASSERT_TRUE(periodic.has_value());
    EXPECT_LT(periodic->solved_microbatches, 60);
    expect_equal(periodic->frontier, solve_frontier(pipeline(80)));
  }
}

TEST(SolvePeriodic, StartsLaterWhereTheFirstTryIsNotYetPeriodic) {
  const profile::StageProfile profile = profile_of(4, 1.07, 0.05, 7);
  const InstanceOfMicrobatches pipeline = pipeline_of(profile);
  const auto periodic = solve_periodic(pipeline, 120, 1);
  ASSERT_TRUE(periodic.has_value());
  EXPECT_GT(periodic->solved_microbatches, 1);
  expect_equal(periodic->frontier, solve_frontier(pipeline(120)));
}

TEST(SolvePeriodic, IsNotTriedWhereTheWholePipelineIsHardlyLonger) {
  const profile::StageProfile profile = profile_of(4, 1.07, 0, 1);
  EXPECT_FALSE(solve_periodic(pipeline_of(profile), 3, 1).has_value());
  EXPECT_FALSE(solve_periodic(pipeline_of(profile), 12, 10).has_value());
}

}  // namespace
}  // namespace lowgear::planner
