#include "app/cli/arguments/pipeline_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/cli/run_lowgear.h"
#include "base/core/error_of.h"
#include "planning/schedule/generators.h"

namespace lowgear::cli {
namespace {

using ::testing::HasSubstr;

profile::StageProfile profile_of(int stages) {
  return profile::read_stage_profile(small_profile(stages), "profile.csv");
}

TEST(LoadSchedule, EnvPipeDependsOnTheProfile) {
  const profile::StageProfile profile = profile_of(3);
  ScheduleArguments arguments;
  arguments.schedule = "envpipe";
  arguments.stages = 3;
  arguments.microbatches = 8;
  const schedule::Schedule free = load_schedule(arguments, &profile, std::vector<double>(3, 70));
  arguments.extra_activations = 0;
  const schedule::Schedule tight = load_schedule(arguments, &profile, std::vector<double>(3, 70));
  EXPECT_GT(peak_in_flight_activations(free)[0], peak_in_flight_activations(tight)[0]);
  EXPECT_EQ(schedule::peak_in_flight_activations(tight),
            schedule::peak_in_flight_activations(schedule::one_f_one_b_schedule(3, 8)));
}

}  // namespace
}  // namespace lowgear::cli
