#include "schedule/communication.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "schedule/deadlock.h"
#include "schedule/generators.h"
#include "schedule/schedule_testing.h"

namespace lowgear {
namespace {

using testing::row;
using testing::schedule_from;

TEST(Communication, KnowsTheOtherEndOfAMessage) {
  const Schedule schedule = schedule_from({"0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"});
  const Action send_f = schedule.ranks[0][1];
  const Action recv_b = schedule.ranks[0][2];
  const Action recv_f = schedule.ranks[1][0];
  const Action send_b = schedule.ranks[1][3];
  EXPECT_EQ(counterpart(send_f), recv_f);
  EXPECT_EQ(counterpart(recv_f), send_f);
  EXPECT_EQ(counterpart(send_b), recv_b);
  EXPECT_EQ(counterpart(recv_b), send_b);
  EXPECT_TRUE(is_send(send_f.kind));
  EXPECT_FALSE(is_send(recv_b.kind));
}

TEST(Communication, IsWrittenInTheOrderInWhichDataIsMade) {
  const Schedule schedule = with_communication(one_f_one_b_schedule(2, 3));
  EXPECT_EQ(row(schedule, 0), "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0F2 0SEND_F2 0RECV_B1 0B1 0RECV_B2 0B2");
  EXPECT_EQ(row(schedule, 1), "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1RECV_F2 1SEND_B1 1F2 1B2 1SEND_B2");
}

TEST(Communication, IsNotWrittenWithinARank) {
  const Schedule schedule = with_communication(schedule_from({"0F0 3F0 3B0 0B0", "1F0 2F0 2B0 1B0"}));
  EXPECT_EQ(row(schedule, 0), "0F0 0SEND_F0 3RECV_F0 3F0 3B0 3SEND_B0 0RECV_B0 0B0");
  EXPECT_EQ(row(schedule, 1), "1RECV_F0 1F0 2F0 2SEND_F0 2RECV_B0 2B0 1B0 1SEND_B0");
  EXPECT_FALSE(has_communication(with_communication(one_f_one_b_schedule(1, 4))));
}

TEST(Communication, ThatIsThereStays) {
  const Schedule naive = testing::with_naive_communication(one_f_one_b_schedule(3, 4));
  EXPECT_EQ(with_communication(naive).ranks, naive.ranks);
}

TEST(Communication, LeavesTheComputationsAlone) {
  const Schedule schedule = interleaved_schedule(3, 6, 2);
  const Schedule stripped = without_communication(with_communication(schedule));
  EXPECT_EQ(stripped.name, schedule.name);
  EXPECT_EQ(stripped.stages, schedule.stages);
  EXPECT_EQ(stripped.microbatches, schedule.microbatches);
  EXPECT_EQ(stripped.ranks, schedule.ranks);
}

TEST(Communication, OfAnySchedulesIsCompleteAndCannotHang) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 1000; ++trial) {
    SCOPED_TRACE(trial);
    const Schedule schedule = testing::random_schedule(random);
    const Schedule communicating = with_communication(schedule);
    EXPECT_EQ(testing::input_error([&] { validate(communicating); }), "");
    EXPECT_EQ(without_communication(communicating).ranks, schedule.ranks);
    for (const P2pGrouping grouping : {P2pGrouping::none, P2pGrouping::adjacent}) {
      EXPECT_EQ(testing::input_error([&] { require_runnable(communicating, grouping); }), "");
    }
    if (HasFailure()) return;
  }
}

TEST(Communication, IsNotAddedToWhatCannotRun) {
  EXPECT_THROW((void)with_communication(schedule_from({"0B0 0F0", "1F0 1B0"})), InputError);
  EXPECT_THROW((void)with_communication(schedule_from({"0F0", "1F0 1B0"})), InputError);
}

}  // namespace
}  // namespace lowgear
