#include "planning/profile/recorded_activations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"

namespace lowgear::profile {

namespace {

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
