#include "client/server/iteration_waits.h"

#include <gtest/gtest.h>

namespace lowgear::client {
namespace {

protocol::ReportsAnswer asks(std::int64_t from_iteration, int iterations, double delay_s) {
  protocol::ReportsAnswer answer;
  answer.wants_begins = true;
  answer.delays = {.from_iteration = from_iteration, .iterations = iterations, .delay_s = delay_s};
  return answer;
}

TEST(IterationWaits, AreTakenOnceBeforeTheIterationsThatTheServerNames) {
  IterationWaits waits;
  waits.set_iteration_s(1);
  waits.set(asks(5, 2, 0.01));
  EXPECT_TRUE(waits.wants_begins());
  EXPECT_EQ(waits.take_s(4), 0);
  EXPECT_EQ(waits.take_s(5), 0.01);
  EXPECT_EQ(waits.take_s(5), 0) << "training has gone back to a checkpoint";
  waits.set(asks(5, 2, 0.01));  // with the answer to the next reports
  EXPECT_EQ(waits.take_s(6), 0.01);
  EXPECT_EQ(waits.take_s(7), 0);
  EXPECT_EQ(waits.taken_s(4), 0);
  EXPECT_EQ(waits.taken_s(5), 0.01);
  EXPECT_EQ(waits.taken_s(6), 0.01);
  EXPECT_EQ(waits.taken_s(7), 0);
}

TEST(IterationWaits, KnowWhetherTheProgramAsksForThem) {
  IterationWaits waits;
  EXPECT_FALSE(waits.can_wait(0));
  (void)waits.take_s(3);
  EXPECT_TRUE(waits.can_wait(3));
  EXPECT_FALSE(waits.can_wait(4)) << "it has begun without";
}

TEST(IterationWaits, EndWithAnAnswerThatAsksForNone) {
  IterationWaits waits;
  waits.set_iteration_s(1);
  waits.set(asks(5, 100, 0.01));
  waits.set({});
  EXPECT_FALSE(waits.wants_begins());
  EXPECT_EQ(waits.take_s(6), 0);
}

TEST(IterationWaits, AreAtMostAShareOfAnIterationWhateverIsAskedFor) {
  IterationWaits waits;
  waits.set(asks(0, 100, 60));
  EXPECT_EQ(waits.take_s(0), 0) << "no iteration is known yet";
  waits.set_iteration_s(0.5);
  EXPECT_EQ(waits.take_s(1), 0.5 * IterationWaits::kMostShare);
}

}  // namespace
}  // namespace lowgear::client
