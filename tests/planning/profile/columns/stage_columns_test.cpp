#include "planning/profile/columns/stage_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kProfileRows =
    "stage,instruction,frequency,time,energy\n0,forward,1410,0.1,30\n0,backward,1410,0.2,60\n"
    "1,forward,1410,0.1,30\n1,backward,1410,0.2,60\n";

TEST(StageColumns, AreReadAsTheyAreWritten) {
  for (const StageColumns& columns :
       {StageColumns{}, StageColumns{.activation_bytes = {1e9, 5e8}}, StageColumns{.transfer_s = {0.001}},
        StageColumns{.activation_bytes = {3, 4}, .transfer_s = {0}}}) {
    const std::string text = with_stage_columns(kProfileRows, columns);
    EXPECT_EQ(read_stage_columns(text, "p.csv"), columns) << text;
    EXPECT_EQ(write_stage_profile(read_stage_profile(text, "p.csv")), kProfileRows) << "rows are read alike with them";
  }
  EXPECT_EQ(with_stage_columns(kProfileRows, {}), kProfileRows);
}

TEST(StageColumns, AreTheLargestOfAStage) {
  const StageColumns columns = read_stage_columns(
      "stage,instruction,frequency,time,energy,activation_bytes,transfer\n"
      "1,forward,1410,1,1,7,0.1\n0,forward,1410,1,1,5,\n0,backward,1410,1,1,6,0.2\n1,backward,1410,1,1,,\n"
      "2,forward,1410,1,1,7,\n",
      "p.csv");
  EXPECT_THAT(columns.activation_bytes, ElementsAre(6, 7, 7));
  EXPECT_THAT(columns.transfer_s, ElementsAre(0.2, 0.1));
}

TEST(StageColumns, RefuseWhatIsNoAmountWithItsPlace) {
  const auto error = [](const std::string& bytes, const std::string& transfer) {
    return error_of([&] {
      (void)read_stage_columns(
          "stage,instruction,frequency,time,energy,activation_bytes,transfer\n0,forward,1410,1,1," + bytes + "," +
              transfer + "\n1,forward,1410,1,1,,\n",
          "p.csv");
    });
  };
  EXPECT_THAT(error("0", ""), StartsWith("p.csv:2:20: 0 is no number of bytes"));
  EXPECT_THAT(error("many", ""), StartsWith("p.csv:2:20:"));
  EXPECT_THAT(error("", "-1"), HasSubstr("a transfer of -1 s is not in 0 to 1000"));
  EXPECT_THAT(error_of([] {
                (void)read_stage_columns(
                    "stage,instruction,frequency,time,energy,transfer\n0,forward,1410,1,1,\n1,forward,1410,1,1,0.1\n"
                    "2,forward,1410,1,1,\n",
                    "p.csv");
              }),
              HasSubstr("stage 0 has no transfer, and others do"));
  EXPECT_THAT(error("5", ""), HasSubstr("stage 1 has no activation_bytes, and others do"));
}

TEST(StageColumns, DoubtTransfersThatTakeManyTimesTheirForward) {
  StageProfile profile(2);
  profile.add(0, OpKind::forward, {1410, 0.05, 15});
  profile.add(1, OpKind::forward, {1410, 0.05, 15});
  EXPECT_EQ(transfer_doubt({.transfer_s = {0.4}}, profile, "p.csv"), std::nullopt);
  EXPECT_EQ(transfer_doubt({.transfer_s = {2}}, profile, "p.csv"),
            "p.csv: a transfer of stage 0 takes 2 s, and its forward 0.05 s: give seconds");
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Recording with_activations(std::vector<RecordedActivations> activations) {
  Recording recording;
  recording.activations = std::move(activations);
  return recording;
}

TEST(RecordedActivations, AreReadAsTheyAreWritten) {
  const std::vector<RecordedActivations> measured{{1, 0, 4096}, {1, 2, 1'000'000'000'000}, {9, 0, 1}};
  const std::string text = write_recorded_activations(measured);
  EXPECT_EQ(text, "iteration,stage,activation_bytes\n1,0,4096\n1,2,1000000000000\n9,0,1\n");
  EXPECT_EQ(read_recorded_activations(text, "a.csv"), measured);
  EXPECT_THAT(read_recorded_activations(write_recorded_activations({}), "a.csv"), IsEmpty());
}

TEST(RecordedActivations, OfAStageAreTheLargestOfItsRanksAndIterations) {
  const std::vector<Recording> ranks{with_activations({{1, 0, 10}, {1, 2, 7}, {5, 0, 30}}),
                                     with_activations({{1, 1, 20}, {1, 0, 20}}), with_activations({})};
  const StageActivations joined = activations_by_stage(ranks, 3);
  EXPECT_THAT(joined.bytes, ElementsAre(30, 20, 7));
  EXPECT_THAT(joined.warning, IsEmpty());
}

TEST(RecordedActivations, OfSomeStagesAloneAreNone) {
  const StageActivations some = activations_by_stage(std::vector{with_activations({{1, 0, 10}})}, 2);
  EXPECT_THAT(some.bytes, IsEmpty());
  EXPECT_THAT(some.warning, StartsWith("the activations of stage 1 were not measured"));
  const StageActivations none = activations_by_stage(std::vector{with_activations({})}, 2);
  EXPECT_THAT(none.bytes, IsEmpty());
  EXPECT_THAT(none.warning, IsEmpty()) << "recordings of other programs than the trainer";
}

TEST(RecordedActivations, RefuseWhatIsNoneWithItsPlace) {
  const auto error = [](const std::string& row) {
    return error_of(
        [&] { (void)read_recorded_activations("iteration,stage,activation_bytes\n1,0,10\n" + row + "\n", "a.csv"); });
  };
  EXPECT_THAT(error("2,0,0"), StartsWith("a.csv:3:5: 0 is not in 1 to"));
  EXPECT_THAT(error("2,0,-5"), StartsWith("a.csv:3:5:"));
  EXPECT_THAT(error("2,0,1.5"), StartsWith("a.csv:3:5:"));
  EXPECT_THAT(error("2,0,many"), StartsWith("a.csv:3:5:"));
  EXPECT_THAT(error("2,0,9e18"), StartsWith("a.csv:3:5:"));
  EXPECT_THAT(error("-1,0,10"), StartsWith("a.csv:3:1: -1 is not in 0 to"));
  EXPECT_THAT(error("2,-1,10"), StartsWith("a.csv:3:3: -1 is not in 0 to"));
  EXPECT_THAT(error("1,0,11"), StartsWith("a.csv:3:3: stage 0 occurs twice in iteration 1"));
  EXPECT_THAT(error_of([] { (void)read_recorded_activations("stage,activation_bytes\n", "a.csv"); }),
              HasSubstr("iteration"));
}

}  // namespace

}  // namespace lowgear::profile
