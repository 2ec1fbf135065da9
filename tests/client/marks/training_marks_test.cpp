#include "client/marks/training_marks.h"

#include <gtest/gtest.h>

namespace lowgear::client {
namespace {

ExpectedUnit forward(std::uint32_t microbatch) { return {.microbatch = microbatch, .stage = 1}; }
ExpectedUnit backward(std::uint32_t microbatch) {
  return {.microbatch = microbatch, .stage = 1, .kind = OpKind::backward};
}

void run(ExpectedUnits& expected, std::uint64_t iteration, const std::vector<ExpectedUnit>& units) {
  expected.iteration_begins(iteration);
  for (const ExpectedUnit& unit : units) expected.unit_begins(unit);
  expected.iteration_ends();
}

TEST(ExpectedUnits, AgreesWithTheScheduleThatWasNamed) {
  ExpectedUnits expected;
  run(expected, 0, {backward(7)});
  expected.expect({forward(0), forward(1), backward(0), backward(1)}, true);
  for (std::uint64_t i = 1; i < 4; ++i) run(expected, i, {forward(0), forward(1), backward(0), backward(1)});
  EXPECT_EQ(expected.differing_iterations(), 0);
  EXPECT_EQ(expected.first_difference(), "");
  EXPECT_FALSE(expected.has_failed());
}

TEST(ExpectedUnits, KeepsTheFirstDifferenceAndCountsIterations) {
  ExpectedUnits expected;
  expected.expect({forward(0), forward(1), backward(0)}, true);
  run(expected, 11, {forward(0), forward(1), backward(0)});
  run(expected, 12, {forward(0), backward(0), forward(1)});
  run(expected, 13, {backward(0)});
  EXPECT_EQ(expected.differing_iterations(), 2) << "once an iteration";
  EXPECT_EQ(expected.first_difference(),
            "iteration 12, unit 1: expected forward 1 of stage 1, got backward 0 of stage 1");
  EXPECT_TRUE(expected.has_failed());
}

TEST(ExpectedUnits, SeesIterationsThatEndEarlyOrLate) {
  ExpectedUnits early;
  early.expect({forward(0), forward(1)}, true);
  run(early, 3, {forward(0)});
  EXPECT_EQ(early.first_difference(),
            "iteration 3, unit 1: expected forward 1 of stage 1, got the end of the iteration");
  ExpectedUnits late;
  late.expect({forward(0)}, true);
  run(late, 3, {forward(0), forward(1)});
  EXPECT_EQ(late.first_difference(),
            "iteration 3, unit 1: expected the end of the iteration, got forward 1 of stage 1");
}

TEST(ExpectedUnits, OnlyCountsWhereThatIsWanted) {
  ExpectedUnits expected;
  expected.expect({forward(0)}, false);
  run(expected, 0, {forward(1)});
  EXPECT_EQ(expected.differing_iterations(), 1);
  EXPECT_FALSE(expected.has_failed());
}

TEST(ExpectedUnits, HoldsFromTheNextIterationOn) {
  ExpectedUnits expected;
  expected.expect({forward(0)}, true);
  expected.iteration_begins(0);
  expected.unit_begins(forward(0));
  expected.expect({forward(5)}, true);
  expected.unit_begins(forward(1));
  expected.iteration_ends();
  run(expected, 1, {forward(5)});
  expected.expect({}, true);
  run(expected, 2, {backward(3)});
  EXPECT_EQ(expected.differing_iterations(), 0);
}

TEST(NextMicrobatches, CountsEachKindAndStageInAnIteration) {
  NextMicrobatches next;
  EXPECT_EQ(next.end(OpKind::forward, 0), std::nullopt) << "none has begun";
  EXPECT_EQ(next.begin(OpKind::forward, 0), 0);
  EXPECT_EQ(next.begin(OpKind::forward, 0), 1);
  EXPECT_EQ(next.begin(OpKind::backward, 0), 0);
  EXPECT_EQ(next.begin(OpKind::forward, 4), 0);
  EXPECT_EQ(next.end(OpKind::forward, 0), 1);
  EXPECT_EQ(next.end(OpKind::backward, 0), 0);
  next.begin_iteration();
  EXPECT_EQ(next.end(OpKind::forward, 0), std::nullopt);
  EXPECT_EQ(next.begin(OpKind::forward, 0), 0);
}

TEST(NextMicrobatches, HasRoomForManyStagesAndSaysWhenItHasNone) {
  NextMicrobatches next;
  for (int iteration = 0; iteration < 3; ++iteration, next.begin_iteration()) {
    for (std::uint32_t microbatch = 0; microbatch < 2; ++microbatch) {
      for (int i = 0; i < static_cast<int>(NextMicrobatches::kCapacity); ++i) {
        ASSERT_EQ(next.begin(OpKind::forward, static_cast<std::uint16_t>(i * 257)), microbatch) << i;
      }
    }
    EXPECT_EQ(next.begin(OpKind::backward, 0), std::nullopt);
  }
}

}  // namespace
}  // namespace lowgear::client
