#include "planning/profile/recording_check.h"

#include <fmt/format.h>
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

Recording rank_of(int rank, int world_size, const std::vector<int>& stages) {
  Recording recording;
  recording.source = fmt::format("rank-{:05}", rank);
  recording.rank = rank;
  recording.world_size = world_size;
  recording.job = "7";
  recording.gpu_uuid = fmt::format("GPU-{}", rank);
  recording.gpu_name = "A100";
  for (const int stage : stages) {
    RecordedUnit unit;
    unit.stage = stage;
    recording.units.push_back(unit);
  }
  return recording;
}

std::string refusal_of(const std::vector<Recording>& recordings, std::optional<int> stages = {}) {
  return error_of([&] { (void)check_ranks(recordings, stages); });
}

TEST(CheckRanks, SaysNothingOfAWholeJob) {
  EXPECT_THAT(check_ranks(std::vector{rank_of(0, 2, {0}), rank_of(1, 2, {1})}, {}), IsEmpty());
  EXPECT_THAT(check_ranks(std::vector{rank_of(0, 2, {0}), rank_of(1, 2, {1})}, 2), IsEmpty());
}

TEST(CheckRanks, WarnsOfRanksOfAStageThatRunItsUnitsInDifferentOrders) {
  const auto ordered = [](int rank, const std::vector<OpKind>& kinds) {
    Recording recording = rank_of(rank, 2, {});
    for (const OpKind kind : kinds) recording.units.push_back({.kind = kind});
    return recording;
  };
  using enum OpKind;
  const std::vector<OpKind> first{forward, forward, backward, backward};
  const std::vector<OpKind> last{forward, backward, forward, backward};
  EXPECT_THAT(check_ranks(std::vector{ordered(0, first), ordered(1, first)}, {}), IsEmpty());
  EXPECT_THAT(check_ranks(std::vector{ordered(0, first), ordered(1, last)}, {}),
              ElementsAre(HasSubstr("ranks 0 and 1 run the units of stage 0 in different orders")));
}

TEST(CheckRanks, RefusesAMissingRankThatMayHaveRunAnotherStage) {
  EXPECT_THAT(refusal_of({rank_of(0, 2, {0})}),
              AllOf(HasSubstr("rank 1 of 2 has no recording"), HasSubstr("stages that no other rank has"),
                    HasSubstr("rank-00001")));
  EXPECT_THAT(refusal_of({rank_of(0, 8, {0}), rank_of(1, 8, {0}), rank_of(2, 8, {1}), rank_of(3, 8, {1})}),
              HasSubstr("ranks 4 to 7 of 8 have no recording"))
      << "four stages of two ranks, or two of four";
  EXPECT_THAT(refusal_of({rank_of(0, 4, {0, 2})}), HasSubstr("ranks 1 to 3")) << "interleaved";
}

TEST(CheckRanks, WarnsOfMissingReplicas) {
  const std::vector<Recording> three{rank_of(0, 4, {0}), rank_of(1, 4, {1}), rank_of(2, 4, {0})};
  EXPECT_THAT(check_ranks(three, {}), ElementsAre(HasSubstr("rank 3 of 4 has no recording: stages are profiled by")))
      << "two ranks have stage 0: there are two stages";
  const std::vector<Recording> node{rank_of(0, 4, {0}), rank_of(1, 4, {1})};
  EXPECT_THAT(refusal_of(node), HasSubstr("ranks 2, 3 of 4"));
  EXPECT_THAT(check_ranks(node, 2), ElementsAre(HasSubstr("ranks 2, 3 of 4 have no recording")))
      << "by the schedule there are two stages";
}

TEST(CheckRanks, HoldsStagesAgainstTheSchedule) {
  EXPECT_THAT(refusal_of({rank_of(0, 4, {0}), rank_of(1, 4, {1})}, 4),
              AllOf(HasSubstr("no rank recorded stages 2, 3 of the 4 of the schedule"),
                    HasSubstr("ranks 2, 3 of 4 have no recording")));
  EXPECT_THAT(refusal_of({rank_of(0, 2, {0}), rank_of(1, 2, {2})}, 2),
              HasSubstr("a rank recorded stage 2, and the schedule has 2 stages"));
}

TEST(CheckRanks, RefusesRecordingsOfSeveralJobs) {
  EXPECT_THAT(refusal_of({rank_of(0, 2, {0}), rank_of(1, 4, {1})}),
              HasSubstr("rank-00000: its job has 2 ranks, and that of rank-00001 has 4"));
  std::vector<Recording> two{rank_of(0, 2, {0}), rank_of(1, 2, {1})};
  two[1].job = "8";
  EXPECT_THAT(refusal_of(two), HasSubstr("rank-00001: is of job \"8\", and rank-00000 of job \"7\""));
  two[1].part = 1;
  EXPECT_THAT(check_ranks(two, {}), IsEmpty()) << "resumed as another job of the cluster";
}

TEST(CheckRanks, RefusesARankThatWasRecordedTwice) {
  EXPECT_THAT(refusal_of({rank_of(0, 1, {0}), rank_of(0, 1, {0})}), HasSubstr("was recorded in another folder too"));
}

TEST(CheckRanks, RefusesRanksOnOneGpu) {
  std::vector<Recording> two{rank_of(0, 2, {0}), rank_of(1, 2, {1})};
  two[1].gpu_uuid = two[0].gpu_uuid;
  EXPECT_THAT(refusal_of(two), HasSubstr("ranks 0 and 1 ran on one GPU (GPU-0), whose energy counter counts both"));
  two[1].part = 1;
  EXPECT_THAT(check_ranks(two, {}), IsEmpty()) << "one after the other";
}

TEST(CheckRanks, RefusesInstancesOfAGpu) {
  std::vector<Recording> one{rank_of(0, 1, {0})};
  one[0].gpu_uuid = "MIG-1";
  EXPECT_THAT(refusal_of(one), HasSubstr("only the whole GPU has an energy counter"));
}

TEST(CheckRanks, WarnsOfSeveralModels) {
  std::vector<Recording> two{rank_of(0, 2, {0}), rank_of(1, 2, {1})};
  two[1].gpu_name = "H100";
  EXPECT_THAT(check_ranks(two, {}), ElementsAre(HasSubstr("rank 0 ran on A100, and rank 1 on H100")));
}

TEST(MissingRanks, DoNotNeedAWorldSize) {
  EXPECT_THAT(missing_ranks(std::vector{rank_of(0, 1, {0}), rank_of(2, 3, {1})}), ElementsAre(1))
      << "launchers that state none: the rank and one";
  EXPECT_THAT(missing_ranks({}), IsEmpty());
}

TEST(RanksText, ListsRanges) {
  EXPECT_EQ(ranks_text(std::vector{3}), "rank 3");
  EXPECT_EQ(ranks_text(std::vector{1, 4, 5, 7, 8, 9}), "ranks 1, 4, 5, 7 to 9");
}

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
                                HasSubstr("3 of 20 iterations have this fault and are left out"))));
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
