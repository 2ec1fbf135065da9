#include "planning/planner/policies/max_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "planning/planner/policies/sample_problem.h"

namespace lowgear::planner {
namespace {

using testing::HasSubstr;

TEST(MaxClock, RunsEverythingAtItsHighestClock) {
  profile::StageProfile profile(2);
  profile.add(0, OpKind::forward, {1410, 0.05, 15});
  profile.add(0, OpKind::backward, {1395, 0.10, 30});
  profile.add(1, OpKind::forward, {1200, 0.05, 15});
  profile.add(1, OpKind::forward, {1000, 0.06, 14});
  profile.add(1, OpKind::backward, {1200, 0.10, 30});
  const SampleProblem sample(schedule::one_f_one_b_schedule(2, 1), std::move(profile), 80);
  EXPECT_THAT(MaxClockPolicy().plan(sample.problem(), std::nullopt).clocks_mhz,
              testing::ElementsAre(1410, 1395, 1200, 1200));
  EXPECT_THAT(MaxClockPolicy().plan(sample.problem(), 1.0).note, HasSubstr("no deadline"));
}

}  // namespace
}  // namespace lowgear::planner
