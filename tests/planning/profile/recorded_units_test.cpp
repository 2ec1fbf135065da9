#include "planning/profile/recorded_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "planning/profile/made_up_recording.h"

namespace lowgear::profile {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// 20 iterations of 4 microbatches without the units that are lost.
Recording recording_without(const std::function<bool(const RecordedUnit&)>& is_lost) {
  MadeUpProcess process;
  process.power_w = {{{0, OpKind::forward, 1000}, 300}, {{0, OpKind::backward, 1000}, 400}};
  Recording recording = process.record({1000}, 20, 4);
  std::erase_if(recording.units, is_lost);
  return recording;
}

std::set<int> left_out(const Recording& recording) {
  std::set<int> iterations;
  for (const RecordedUnit& unit : recording.units) {
    if (unit.settling) iterations.insert(unit.iteration);
  }
  return iterations;
}

TEST(LeaveOutIncomplete, SaysNothingOfAWholeRecording) {
  Recording recording = recording_without([](const RecordedUnit&) { return false; });
  const UnitCheck check = leave_out_incomplete(recording);
  EXPECT_THAT(check.warnings, IsEmpty());
  EXPECT_EQ(check.microbatches, 4);
  EXPECT_THAT(left_out(recording), IsEmpty());
}

TEST(LeaveOutIncomplete, LeavesOutIterationsThatLackUnits) {
  Recording one = recording_without([](const RecordedUnit& unit) {
    return unit.iteration == 7 && unit.kind == OpKind::backward && unit.microbatch == 2;
  });
  EXPECT_THAT(leave_out_incomplete(one).warnings,
              ElementsAre(HasSubstr("made up/units.csv: 1 of 20 iterations have other units than most (8 of them; the "
                                    "first is iteration 7 with 7)")));
  EXPECT_THAT(left_out(one), ElementsAre(7));
  Recording microbatch =
      recording_without([](const RecordedUnit& unit) { return unit.iteration > 12 && unit.microbatch == 3; });
  EXPECT_THAT(leave_out_incomplete(microbatch).warnings, ElementsAre(HasSubstr("7 of 20 iterations")));
  EXPECT_THAT(left_out(microbatch), ElementsAre(13, 14, 15, 16, 17, 18, 19));
}

TEST(LeaveOutIncomplete, CountsWholeIterationsAlone) {
  // Most iterations lack some unit, each another one.
  Recording recording = recording_without([](const RecordedUnit& unit) {
    return unit.iteration % 4 != 0 && unit.kind == OpKind::forward && unit.microbatch == unit.iteration % 4;
  });
  EXPECT_THAT(leave_out_incomplete(recording).warnings, ElementsAre(HasSubstr("15 of 20 iterations")));
  EXPECT_EQ(left_out(recording).size(), 15);
}

TEST(LeaveOutIncomplete, LeavesOutTheTimeOfIterationsThatHaveNoUnits) {
  Recording recording =
      recording_without([](const RecordedUnit& unit) { return unit.iteration == 5 || unit.iteration == 6; });
  EXPECT_THAT(leave_out_incomplete(recording).warnings,
              ElementsAre(HasSubstr("2 iterations have no units, the first is iteration 5")));
  EXPECT_THAT(left_out(recording), ElementsAre(4));
}

TEST(LeaveOutIncomplete, LeavesOutBackwardsBeforeTheirForwards) {
  const auto swap_kinds = [](Recording& recording, int from) {
    for (RecordedUnit& unit : recording.units) {
      if (unit.iteration < from) continue;
      unit.kind = unit.kind == OpKind::forward ? OpKind::backward : OpKind::forward;
    }
  };
  Recording recording = recording_without([](const RecordedUnit&) { return false; });
  swap_kinds(recording, 17);
  EXPECT_THAT(leave_out_incomplete(recording).warnings,
              ElementsAre(AllOf(HasSubstr("backward 0 of stage 0 begins before its forward has ended, in iteration 17"),
                                HasSubstr("3 of 20 iterations are so: left out"))));
  EXPECT_THAT(left_out(recording), ElementsAre(17, 18, 19));
  recording = recording_without([](const RecordedUnit&) { return false; });
  swap_kinds(recording, 0);
  EXPECT_THAT(error_of([&] { (void)leave_out_incomplete(recording); }),
              HasSubstr("forwards and backwards look swapped"));
}

TEST(LeaveOutIncomplete, SaysWhatEveryIterationLacks) {
  Recording forward =
      recording_without([](const RecordedUnit& unit) { return unit.kind == OpKind::forward && unit.microbatch == 1; });
  EXPECT_THAT(leave_out_incomplete(forward).warnings,
              ElementsAre(HasSubstr("no iteration has a backward for each forward")));
  Recording microbatch = recording_without([](const RecordedUnit& unit) { return unit.microbatch == 1; });
  EXPECT_THAT(leave_out_incomplete(microbatch).warnings,
              ElementsAre(HasSubstr("3 of the microbatches 0 to 3 have units")));
}

TEST(LeaveOutIncomplete, TakesStagesThatOnlyComputeForwardsAsTheyAre) {
  Recording recording = recording_without([](const RecordedUnit& unit) { return unit.kind == OpKind::backward; });
  EXPECT_THAT(leave_out_incomplete(recording).warnings, IsEmpty());
}

}  // namespace
}  // namespace lowgear::profile
