#include "planning/schedule/communication.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/deadlock.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/schedule_testing.h"

namespace lowgear::schedule {
namespace {

using ::testing::HasSubstr;

int time_of(OpKind kind) {
  if (kind == OpKind::recomputing_backward) return 3;
  return kind == OpKind::backward ? 2 : 1;
}

/// An iteration where messages run beside the computations, in one queue per pair of ranks that each end fills in the
/// order of its list, and a computation waits for what it needs. Repeats until no message moves any more.
int time_with_queues(const Schedule& schedule) {
  const std::vector<int> rank_of = rank_of_stage(schedule);
  std::map<std::string, int> done;  // by sending end
  int end = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < schedule.rank_count(); ++rank) {
      int now = 0;
      std::map<int, int> queue_free;        // by peer
      std::map<std::string, int> received;  // by the computation that needs it
      for (const Action& action : schedule.ranks[static_cast<std::size_t>(rank)]) {
        if (!is_message(action.kind)) {
          const bool gradient = action.op == OpKind::backward || action.op == OpKind::input_gradient ||
                                action.op == OpKind::recomputing_backward;
          const char kind = gradient ? 'B' : letter(action.op);
          now = std::max(now, received[fmt::format("{}{}{}", action.stage, kind, action.microbatch)]);
          now += time_of(action.op);
          continue;
        }
        int& free = queue_free[rank_of[static_cast<std::size_t>(peer_stage(action))]];
        int& time = done[to_string(is_send(action.kind) ? action : counterpart(action))];
        const int earliest = std::max({time, now, free});
        moved = moved || earliest > time;
        free = time = earliest;
        const char kind = action.kind == ActionKind::recv_f ? 'F' : 'B';
        if (!is_send(action.kind)) received[fmt::format("{}{}{}", action.stage, kind, action.microbatch)] = time;
      }
      end = std::max(end, now);
    }
  }
  return end;
}

/// The same iteration where messages take no time and wait for no receiver.
int time_without_messages(const Schedule& schedule) {
  const PipelineDag dag = build_dag(schedule);
  std::vector<int> end(dag.ops.size(), 0);
  for (const int op : dag.topological_order) {
    int& mine = end[static_cast<std::size_t>(op)];
    for (const DagEdge& edge : dag.edges) {
      if (edge.to == op) mine = std::max(mine, end[static_cast<std::size_t>(edge.from)]);
    }
    mine += time_of(dag.ops[static_cast<std::size_t>(op)].kind);
  }
  return *std::max_element(end.begin(), end.end());
}

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

TEST(Communication, ReckonsThatABackwardTakesTwoForwards) {
  // Rank 1 ends 1F2 while rank 0 is in 2B1, which it would not if a backward took as long as a forward: the activation
  // comes before the gradient.
  EXPECT_THAT(row(with_communication(interleaved_schedule(2, 4, 2)), 0), HasSubstr("2B1 2RECV_F2 2SEND_B1 2F2"));
}

TEST(Communication, IsNotWrittenWithinARank) {
  const Schedule schedule = with_communication(schedule_from({"0F0 3F0 3B0 0B0", "1F0 2F0 2B0 1B0"}));
  EXPECT_EQ(row(schedule, 0), "0F0 0SEND_F0 3RECV_F0 3F0 3B0 3SEND_B0 0RECV_B0 0B0");
  EXPECT_EQ(row(schedule, 1), "1RECV_F0 1F0 2F0 2SEND_F0 2RECV_B0 2B0 1B0 1SEND_B0");
  EXPECT_FALSE(has_communication(with_communication(one_f_one_b_schedule(1, 4))));
}

TEST(Communication, ThatIsThereStays) {
  const Schedule naive = with_naive_communication(one_f_one_b_schedule(3, 4));
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
    const Schedule schedule = random_schedule(random);
    const Schedule communicating = with_communication(schedule);
    EXPECT_EQ(error_of([&] { validate(communicating); }), "no error");
    EXPECT_EQ(without_communication(communicating).ranks, schedule.ranks);
    for (const P2pGrouping grouping : {P2pGrouping::none, P2pGrouping::adjacent}) {
      EXPECT_EQ(error_of([&] { require_runnable(communicating, grouping); }), "no error");
    }
    if (HasFailure()) return;
  }
}

void expect_nothing_kept_back(const Schedule& schedule) {
  EXPECT_EQ(time_with_queues(with_communication(schedule)), time_without_messages(schedule)) << schedule.name;
}

TEST(Communication, KeepsNothingBackInQueuesBesideTheComputations) {
  for (const Schedule& schedule :
       {gpipe_schedule(4, 8), one_f_one_b_schedule(4, 8), interleaved_schedule(4, 8, 2), interleaved_schedule(3, 6, 3),
        zb_h1_schedule(4, 8), envpipe_schedule(8, std::vector{4, 3, 1, 0})}) {
    expect_nothing_kept_back(schedule);
  }
  std::mt19937 random(6);
  for (int trial = 0; trial < 200; ++trial) expect_nothing_kept_back(random_schedule(random));
}

TEST(Communication, IsNotAddedToWhatCannotRun) {
  EXPECT_THROW((void)with_communication(schedule_from({"0B0 0F0", "1F0 1B0"})), InputError);
  EXPECT_THROW((void)with_communication(schedule_from({"0F0", "1F0 1B0"})), InputError);
}

}  // namespace
}  // namespace lowgear::schedule
