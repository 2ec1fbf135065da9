#include "planning/schedule/communication.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "planning/schedule/dag.h"
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

using ::testing::HasSubstr;

// An oracle that shares nothing with the simulation: the graph of what must begin and complete before what.

/// Messages issued together: steps [begin, end) of a rank.
struct Group {
  int rank = 0;
  int begin = 0;
  int end = 0;
};

std::vector<Group> groups_of(const Schedule& schedule, P2pGrouping grouping) {
  std::vector<Group> groups;
  for (int rank = 0; rank < schedule.rank_count(); ++rank) {
    const auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
    for (int step = 0; step < static_cast<int>(actions.size()); ++step) {
      if (!is_message(actions[static_cast<std::size_t>(step)].kind)) continue;
      const bool joins = grouping == P2pGrouping::adjacent && !groups.empty() && groups.back().rank == rank &&
                         groups.back().end == step;
      if (joins) {
        groups.back().end = step + 1;
      } else {
        groups.push_back({rank, step, step + 1});
      }
    }
  }
  return groups;
}

struct Verdict {
  bool cyclic = false;
  bool mismatched = false;
};

/// Group g begins at node 2g and is complete at node 2g + 1. It begins once the group before it on its rank is
/// complete, and is complete once it and every group that holds the other end of one of its messages have begun.
Verdict judge(const Schedule& schedule, P2pGrouping grouping) {
  const std::vector<Group> groups = groups_of(schedule, grouping);
  const std::vector<int> rank_of = rank_of_stage(schedule);
  std::map<std::pair<int, int>, std::vector<std::pair<Action, int>>> sends;
  std::map<std::pair<int, int>, std::vector<std::pair<Action, int>>> receives;
  std::vector<std::pair<int, int>> edges;
  for (int g = 0; g < static_cast<int>(groups.size()); ++g) {
    const Group& group = groups[static_cast<std::size_t>(g)];
    edges.emplace_back(2 * g, 2 * g + 1);
    if (g > 0 && groups[static_cast<std::size_t>(g) - 1].rank == group.rank) edges.emplace_back(2 * g - 1, 2 * g);
    for (int step = group.begin; step < group.end; ++step) {
      const Action& action = schedule.ranks[static_cast<std::size_t>(group.rank)][static_cast<std::size_t>(step)];
      const int peer = rank_of[static_cast<std::size_t>(peer_stage(action))];
      if (is_send(action.kind)) {
        sends[{group.rank, peer}].emplace_back(action, g);
      } else {
        receives[{peer, group.rank}].emplace_back(action, g);
      }
    }
  }
  Verdict verdict;
  for (const auto& [link, sent] : sends) {
    const auto& received = receives[link];
    for (std::size_t i = 0; i < sent.size(); ++i) {
      edges.emplace_back(2 * sent[i].second, 2 * received[i].second + 1);
      edges.emplace_back(2 * received[i].second, 2 * sent[i].second + 1);
      verdict.mismatched = verdict.mismatched || counterpart(sent[i].first) != received[i].first;
    }
  }
  // Strip nodes that nothing precedes until none is left, or only cycles are.
  std::vector<int> incoming(2 * groups.size(), 0);
  for (const auto& edge : edges) ++incoming[static_cast<std::size_t>(edge.second)];
  std::size_t stripped = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t node = 0; node < incoming.size(); ++node) {
      if (incoming[node] != 0) continue;
      incoming[node] = -1;
      moved = true;
      ++stripped;
      for (const auto& edge : edges) {
        if (edge.first == static_cast<int>(node)) --incoming[static_cast<std::size_t>(edge.second)];
      }
    }
  }
  verdict.cyclic = stripped != incoming.size();
  return verdict;
}

/// A deadlock's ranks must each wait for the next, at places where their lists say so.
void expect_genuine_cycle(const Schedule& schedule, const CommunicationFault& fault) {
  ASSERT_GE(fault.waiting.size(), 2U);
  for (std::size_t i = 0; i < fault.waiting.size(); ++i) {
    const WaitingRank& end = fault.waiting[i];
    EXPECT_EQ(end.peer, fault.waiting[(i + 1) % fault.waiting.size()].rank);
    EXPECT_EQ(end.action, schedule.ranks[static_cast<std::size_t>(end.rank)][static_cast<std::size_t>(end.step)]);
    EXPECT_TRUE(is_message(end.action.kind));
  }
}

TEST(Deadlock, AgreesWithTheGraphOfWhatMustComeBeforeWhat) {
  std::mt19937 random(3);
  std::map<std::string, int> met;
  for (int trial = 0; trial < 4000; ++trial) {
    SCOPED_TRACE(trial);
    const Schedule schedule = with_random_communication(random_schedule(random), random);
    if (!has_communication(schedule)) continue;
    for (const P2pGrouping grouping : {P2pGrouping::none, P2pGrouping::adjacent}) {
      const Verdict verdict = judge(schedule, grouping);
      const auto fault = find_communication_fault(schedule, grouping);
      ASSERT_EQ(fault.has_value(), verdict.cyclic || verdict.mismatched);
      if (!fault) {
        ++met["runs"];
        continue;
      }
      const bool deadlock = fault->kind == CommunicationFault::Kind::deadlock;
      ++met[deadlock ? "deadlock" : "mismatch"];
      EXPECT_TRUE(deadlock ? verdict.cyclic : verdict.mismatched);
      if (deadlock) expect_genuine_cycle(schedule, *fault);
    }
  }
  for (const char* outcome : {"runs", "deadlock", "mismatch"}) EXPECT_GT(met[outcome], 100) << outcome;
}

TEST(Deadlock, GroupingNeverHurts) {
  std::mt19937 random(4);
  int safe = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const Schedule schedule = with_random_communication(random_schedule(random), random);
    if (schedule.rank_count() == 1) continue;
    if (find_communication_fault(schedule, P2pGrouping::none)) continue;
    ++safe;
    EXPECT_FALSE(find_communication_fault(schedule, P2pGrouping::adjacent)) << trial;
  }
  EXPECT_GT(safe, 50);
}

TEST(Deadlock, OfNaivelyOrdered1F1BIsFoundAndGroupingCuresIt) {
  const Schedule naive = with_naive_communication(one_f_one_b_schedule(2, 4));
  EXPECT_EQ(error_of([&] { require_runnable(naive, P2pGrouping::none); }),
            "1f1b: can hang: rank 0 waits at step 3 (0SEND_F1) for rank 1, which waits at step 3 (1SEND_B0) for rank "
            "0; reorder them, or leave out all sends and receives so that Lowgear orders them");
  EXPECT_EQ(error_of([&] { require_runnable(naive, P2pGrouping::adjacent); }), "no error");
}

TEST(Deadlock, IsNamedAroundARing) {
  // Three ranks in a ring of virtual stages, each sending to the next before it receives.
  const Schedule ring =
      schedule_from({"0F0 0F1 0SEND_F0 3RECV_F0 3F0 0SEND_F1 3RECV_F1 3F1 3B0 3B1 3SEND_B0 3SEND_B1 "
                     "0RECV_B0 0RECV_B1 0B0 0B1",
                     "1RECV_F0 1F0 1RECV_F1 1F1 1SEND_F0 1SEND_F1 1RECV_B0 1B0 1RECV_B1 1B1 1SEND_B0 1SEND_B1",
                     "2RECV_F0 2F0 2SEND_F0 2RECV_F1 2F1 2SEND_F1 2RECV_B0 2RECV_B1 2B0 2B1 2SEND_B0 2SEND_B1"});
  const auto fault = find_communication_fault(ring, P2pGrouping::none);
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(to_string(*fault),
            "rank 0 waits at step 3 (3RECV_F0) for rank 2, which waits at step 0 (2RECV_F0) for rank 1, which waits at "
            "step 2 (1RECV_F1) for rank 0");
}

TEST(Deadlock, MessagesThatCrossAreNamed) {
  const Schedule crossed = schedule_from(
      {"0F0 0F1 0SEND_F0 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1", "1RECV_F1 1F1 1RECV_F0 1F0 1B0 1SEND_B0 1B1 1SEND_B1"});
  EXPECT_EQ(
      error_of([&] { require_runnable(crossed, P2pGrouping::none); }),
      "test: messages cross: rank 0 at step 2 (0SEND_F0) is paired with rank 1 at step 0 (1RECV_F1), which is another "
      "message; reorder them, or leave out all sends and receives so that Lowgear orders them");
}

TEST(Deadlock, AnActivationIsNotPairedWithAGradient) {
  // Virtual stages 0 and 2 on rank 0, 1 on rank 1: both directions of data go from rank 1 to rank 0.
  const Schedule crossed = schedule_from(
      {"0F0 0SEND_F0 0F1 0SEND_F1 2RECV_F0 2F0 2B0 2SEND_B0 0RECV_B0 0B0 2RECV_F1 2F1 2B1 2SEND_B1 0RECV_B1 0B1",
       "1RECV_F0 1F0 1RECV_F1 1F1 1SEND_F0 1RECV_B0 1B0 1SEND_F1 1SEND_B0 1RECV_B1 1B1 1SEND_B1"});
  const auto fault = find_communication_fault(crossed, P2pGrouping::none);
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->kind, CommunicationFault::Kind::mismatch);
  EXPECT_EQ(to_string(*fault),
            "rank 0 at step 8 (0RECV_B0) is paired with rank 1 at step 7 (1SEND_F1), which is another message");
}

TEST(Deadlock, IsNotJudgedWithoutMessages) {
  EXPECT_THAT(error_of([] { require_runnable(one_f_one_b_schedule(2, 2), P2pGrouping::none); }),
              HasSubstr("has no sends and receives"));
  EXPECT_EQ(error_of([] { require_runnable(one_f_one_b_schedule(1, 2), P2pGrouping::none); }), "no error");
}

// EnvPipe's messages as KISTI's fork orders them (casys-kaist/KISTI-UltraScaleAI-EnvPipe): DeepSpeed's
// steps, forwards and backwards on alternating steps, with gradients first and activations put off.

/// DeepSpeed's parity schedule with the backwards of each stage put off by 2 x its extra forwards.
struct EnvPipeSteps {
  int microbatches = 0;
  std::vector<int> extra_forwards;

  [[nodiscard]] int stages() const { return static_cast<int>(extra_forwards.size()); }
  [[nodiscard]] int first_backward_step(int stage) const {
    return 2 * stages() - stage - 1 + 2 * extra_forwards[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] bool is_forward(int stage, int step) const { return (step - stage) % 2 == 0; }
  /// The microbatch that the stage works on in the step; outside [0, M) when on none.
  [[nodiscard]] int microbatch(int stage, int step) const {
    const int first = is_forward(stage, step) ? stage : first_backward_step(stage);
    return step < first ? -1 : (step - first) / 2;
  }
  [[nodiscard]] bool is_valid(int microbatch) const { return microbatch >= 0 && microbatch < microbatches; }
};

std::vector<Action> kisti_rank(const EnvPipeSteps& steps, int stage) {
  std::vector<Action> actions;
  std::deque<int> unsent;
  const auto add = [&](ActionKind kind, int microbatch, OpKind op = OpKind::forward) {
    actions.push_back({kind, op, stage, microbatch});
  };
  const bool has_previous = stage > 0;
  const bool has_next = stage + 1 < steps.stages();
  const int last_step = steps.first_backward_step(stage) + 2 * steps.microbatches + 2 * steps.stages();
  for (int step = 0; step <= last_step; ++step) {
    const int now = steps.microbatch(stage, step);
    const int before = step == 0 ? -1 : steps.microbatch(stage, step - 1);
    if (steps.is_forward(stage, step)) {
      if (has_previous && steps.is_valid(before)) add(ActionKind::send_b, before);
      if (has_previous && steps.is_valid(now)) add(ActionKind::recv_f, now);
      if (steps.is_valid(now)) add(ActionKind::compute, now);
      continue;
    }
    const bool receives = has_next && steps.is_valid(now);
    if (receives) add(ActionKind::recv_b, now);
    if (has_next && steps.is_valid(before)) unsent.push_back(before);
    const bool next_has_not_begun = has_next && step - 1 < steps.first_backward_step(stage + 1);
    if (!unsent.empty() && (receives || next_has_not_begun)) {
      add(ActionKind::send_f, unsent.front());
      unsent.pop_front();
    }
    if (steps.is_valid(now)) add(ActionKind::compute, now, OpKind::backward);
  }
  return actions;
}

Schedule kisti_schedule(int microbatches, const std::vector<int>& extra_forwards) {
  const EnvPipeSteps steps{microbatches, extra_forwards};
  Schedule schedule{"kisti", steps.stages(), microbatches, {}};
  for (int stage = 0; stage < steps.stages(); ++stage) schedule.ranks.push_back(kisti_rank(steps, stage));
  return schedule;
}

TEST(KistiOrder, HasTheComputationsOfEnvPipe) {
  for (const auto& extra : {std::vector{0, 0, 0, 0}, {4, 3, 1, 0}, {0, 1, 2, 0}}) {
    EXPECT_EQ(without_communication(kisti_schedule(8, extra)).ranks, envpipe_schedule(8, extra).ranks);
  }
}

TEST(KistiOrder, RunsWithTheCountsOfALargeBatch) {
  EXPECT_EQ(error_of([] { require_runnable(kisti_schedule(8, {4, 3, 1, 0}), P2pGrouping::none); }), "no error");
}

TEST(KistiOrder, HangsOnTheReadmesFourByFourExample) {
  EXPECT_EQ(error_of([] {
              require_runnable(kisti_schedule(4, {0, 1, 2, 0}), P2pGrouping::none);
            }),
            "kisti: can hang: rank 0 waits at step 7 (0RECV_B0) for rank 1, which waits at step 9 (1RECV_F3) for rank "
            "0; reorder them, or leave out all sends and receives so that Lowgear orders them");
}

TEST(KistiOrder, OursRunsTheSameExample) {
  const Schedule schedule = with_communication(envpipe_schedule(4, std::vector{0, 1, 2, 0}));
  EXPECT_EQ(error_of([&] { require_runnable(schedule, P2pGrouping::none); }), "no error");
}

/// Calls `check` with all counts of the ranks before the last, each from 0 to M - (S - s).
template <typename F>
void for_all_counts(int ranks, int microbatches, F&& check) {
  std::vector<int> extra(static_cast<std::size_t>(ranks), 0);
  while (true) {
    check(extra);
    int rank = 0;
    for (; rank + 1 < ranks; ++rank) {
      int& count = extra[static_cast<std::size_t>(rank)];
      if (count < microbatches - (ranks - rank)) {
        ++count;
        break;
      }
      count = 0;
    }
    if (rank + 1 == ranks) return;
  }
}

TEST(KistiOrder, HangsExactlyWhereTheCountsRise) {
  int hangs = 0;
  int runs = 0;
  for (int ranks = 2; ranks <= 4; ++ranks) {
    for (int microbatches = ranks; microbatches <= ranks + 4; ++microbatches) {
      for_all_counts(ranks, microbatches, [&](const std::vector<int>& extra) {
        const bool falls = std::is_sorted(extra.rbegin(), extra.rend());
        const Schedule schedule = kisti_schedule(microbatches, extra);
        const bool hang = error_of([&] { require_runnable(schedule, P2pGrouping::none); }) != "no error";
        EXPECT_EQ(hang, !falls) << ::testing::PrintToString(extra) << ", " << microbatches << " microbatches";
        ++(hang ? hangs : runs);
      });
    }
  }
  EXPECT_GT(hangs, 100);
  EXPECT_GT(runs, 100);
}

}  // namespace

}  // namespace lowgear::schedule
