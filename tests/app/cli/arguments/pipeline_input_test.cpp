#include "app/cli/arguments/pipeline_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "app/cli/run_lowgear.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/generators.h"

namespace lowgear::cli {
namespace {

using ::testing::HasSubstr;

profile::StageProfile profile_of(int stages) {
  return profile::read_profile_file(small_profile(stages), "profile.csv").profile;
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

TEST(LoadSchedule, NamedOnesLeaveOutTheBackwardsOfFrozenStages) {
  const profile::StageProfile whole = profile_of(3);
  profile::StageProfile profile(3);
  for (const profile::StageOp& op : whole.ops()) {
    if (op.stage == 0 && op.kind != OpKind::forward) continue;
    for (const profile::Measurement& row : op.measurements) profile.add(op.stage, op.kind, row);
  }
  ScheduleArguments arguments;
  arguments.stages = 3;
  arguments.microbatches = 8;
  const schedule::Schedule frozen = load_schedule(arguments, &profile, {});
  EXPECT_EQ(frozen, with_frozen_stages(schedule::one_f_one_b_schedule(3, 8), 1));
  EXPECT_EQ(frozen_stages_note(arguments, frozen),
            "the profile has only forwards of the first stage, as of frozen layers: 1f1b leaves its backwards out");
  EXPECT_EQ(frozen_stages_note(arguments, load_schedule(arguments, &whole, {})), std::nullopt);
  arguments.schedule = "envpipe";
  EXPECT_THAT(error_of([&] { (void)load_schedule(arguments, &profile, {}); }), HasSubstr("give another schedule"));
}

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(BlockingPowerFromArgument, TakesOneNumberForAllStages) {
  EXPECT_THAT(blocking_power_from_argument("83.64", 3), ElementsAre(83.64, 83.64, 83.64));
  EXPECT_THAT(blocking_power_from_argument("0", 1), ElementsAre(0));
  EXPECT_THAT(blocking_power_from_argument("80W", 1), ElementsAre(80));
}

TEST(BlockingPowerFromArgument, TakesAFile) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "b.csv", "stage,blocking_power\n0,80\n1,70\n");
  EXPECT_THAT(blocking_power_from_argument(folder / "b.csv", 2), ElementsAre(80, 70));
  EXPECT_THAT(error_of([&] { (void)blocking_power_from_argument(folder / "b.csv", 3); }),
              HasSubstr("b.csv: stage 2 has no blocking power"));
}

TEST(BlockingPowerFromArgument, RefusesAnythingElse) {
  EXPECT_EQ(error_of([] { (void)blocking_power_from_argument("-80", 2); }),
            "blocking power -80 W is not in 0 to 100000; give the watts of one GPU that waits");
  for (const char* argument : {"80J", "5%", "80GB", "5ms", "nan", "inf", "-inf", "1e999", ".5x"}) {
    EXPECT_THAT(error_of([&] { (void)blocking_power_from_argument(argument, 2); }),
                HasSubstr("expected a number from 0 to 100000 W, such as 80W, not"))
        << argument;
  }
  EXPECT_THAT(error_of([] { (void)blocking_power_from_argument("1,5", 2); }), HasSubstr("; write 1.5"));
  for (const char* argument : {"no/such/file.csv", ""}) {
    EXPECT_THAT(error_of([&] { (void)blocking_power_from_argument(argument, 2); }),
                AllOf(HasSubstr("cannot be read"), HasSubstr("as watts, or as a CSV with the columns")))
        << argument;
  }
}

TEST(BlockingPowerFromArgument, RefusesAnAbsurdNumberOfStages) {
  for (const int stages : {0, -1, std::numeric_limits<int>::max()}) {
    EXPECT_THAT(error_of([&] { (void)blocking_power_from_argument("80", stages); }), HasSubstr("stages are not in"));
  }
}

}  // namespace

}  // namespace lowgear::cli
