#include "planning/schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/schedule_testing.h"

namespace lowgear::schedule {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string validation_error(const std::vector<std::string_view>& ranks) {
  return error_of([&] { validate(schedule_from(ranks)); });
}

TEST(Schedule, WritesActionsInPyTorchsNotation) {
  EXPECT_EQ(to_string(Action{ActionKind::compute, OpKind::forward, 0, 3}), "0F3");
  EXPECT_EQ(to_string(Action{ActionKind::compute, OpKind::backward, 12, 0}), "12B0");
  EXPECT_EQ(to_string(Action{ActionKind::compute, OpKind::input_gradient, 1, 2}), "1I2");
  EXPECT_EQ(to_string(Action{ActionKind::compute, OpKind::weight_gradient, 1, 2}), "1W2");
  EXPECT_EQ(to_string(Action{ActionKind::send_f, OpKind::forward, 0, 3}), "0SEND_F3");
  EXPECT_EQ(to_string(Action{ActionKind::recv_f, OpKind::forward, 1, 3}), "1RECV_F3");
  EXPECT_EQ(to_string(Action{ActionKind::send_b, OpKind::forward, 1, 3}), "1SEND_B3");
  EXPECT_EQ(to_string(Action{ActionKind::recv_b, OpKind::forward, 0, 3}), "0RECV_B3");
}

TEST(Schedule, AcceptsWholeAndSplitBackwards) {
  EXPECT_EQ(validation_error({"0F0 0F1 0B0 0I1 0W1", "1F0 1I0 1F1 1I1 1W0 1W1"}), "no error");
}

TEST(Schedule, AcceptsCompleteCommunication) {
  EXPECT_EQ(validation_error({"0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"}), "no error");
}

TEST(Schedule, AcceptsRecomputations) {
  EXPECT_EQ(to_string(Action{ActionKind::compute, OpKind::recomputation, 0, 3}), "0R3");
  EXPECT_EQ(to_string(Action{ActionKind::compute, OpKind::recomputing_backward, 0, 3}), "0C3");
  EXPECT_EQ(validation_error({"0F0 0F1 0F2 0R0 0B0 0C1 0R2 0I2 0W2"}), "no error");
  EXPECT_TRUE(recomputes(schedule_from({"0F0 0C0"})));
  EXPECT_TRUE(recomputes(schedule_from({"0F0 0R0 0B0"})));
  EXPECT_FALSE(recomputes(schedule_from({"0F0 0I0 0W0"})));
}

TEST(Schedule, RefusesRecomputationsThatDoNotFit) {
  EXPECT_EQ(validation_error({"0F0 0R0 0R0 0B0"}), "test: rank 0, step 2: 0R0: occurs twice; remove one");
  for (const char* other : {"0R0", "0B0", "0I0 0W0"}) {
    EXPECT_THAT(validation_error({"0F0 " + std::string(other) + " 0C0"}), HasSubstr("a backward that recomputes (C)"));
    EXPECT_THAT(validation_error({"0F0 0C0 " + std::string(other)}), HasSubstr("a backward that recomputes (C)"));
  }
  EXPECT_EQ(validation_error({"0F0 0F1 0R0 0B0 0R1", "1F0 1B0 1F1 1B1"}), "test: rank 0 lacks 0B1");
}

TEST(Schedule, RefusesWhatIsMissing) {
  EXPECT_EQ(validation_error({"0F0 0B0 0F1 0I1", "1F0 1B0 1F1 1B1"}), "test: rank 0 lacks 0W1");
  EXPECT_EQ(validation_error({"0F0 0B0 0I1 0W1", "1F0 1B0 1F1 1B1"}), "test: rank 0 lacks 0F1");
  EXPECT_EQ(validation_error({"0F0 0I0 0W0 0F1", "1F0 1B0 1F1 1B1"}), "test: rank 0 lacks 0B1");
  EXPECT_EQ(validation_error({"0F0 0I0 0W0 0F1 0W1", "1F0 1B0 1F1 1B1"}), "test: rank 0 lacks 0I1");
}

TEST(Schedule, RefusesAStageThatNoRankRuns) {
  EXPECT_EQ(validation_error({"0F0 0I0 0W0", "2F0 2I0 2W0"}), "test: no rank runs stage 1 of 3");
}

TEST(Schedule, RefusesWhatStandsTwice) {
  EXPECT_EQ(validation_error({"0F0 0F0 0B0"}), "test: rank 0, step 1: 0F0: occurs twice; remove one");
  EXPECT_THAT(validation_error({"0F0 0B0 0I0 0W0"}), HasSubstr("rank 0, step 2: 0I0: a backward is either whole"));
}

TEST(Schedule, RefusesAStageOnTwoRanks) {
  EXPECT_EQ(validation_error({"0F0 0B0 0F1", "0B1"}),
            "test: rank 1, step 0: 0B1: stage 0 runs on rank 0 already; a stage belongs to one rank");
}

TEST(Schedule, RefusesARankWithoutWork) {
  EXPECT_THAT(validation_error({"0F0 0B0", ""}), HasSubstr("rank 1 computes nothing"));
}

TEST(Schedule, RefusesNumbersOutOfRange) {
  Schedule schedule = schedule_from({"0F0 0B0 0F1 0B1"});
  schedule.ranks[0][2].microbatch = 7;
  EXPECT_EQ(error_of([&] { validate(schedule); }), "test: rank 0, step 2: 0F7: the schedule has microbatches 0 to 1");
  schedule.ranks[0][2].microbatch = 1;
  schedule.ranks[0][3].stage = -1;
  EXPECT_THAT(error_of([&] { validate(schedule); }), HasSubstr("rank 0, step 3: -1B1: the schedule has stages 0 to 0"));
}

TEST(Schedule, RefusesCountsBelowOne) {
  EXPECT_THROW(validate(Schedule{}), InputError);
  EXPECT_THROW(validate(Schedule{"none", 1, 0, {{}}}), InputError);
}

TEST(Schedule, RefusesCountsFarBeyondItsActionsWithoutTakingTheMemory) {
  Schedule schedule = schedule_from({"0F0 0B0"});
  schedule.stages = 2'000'000'000;
  schedule.microbatches = 2'000'000'000;
  EXPECT_THAT(error_of([&] { validate(schedule); }), HasSubstr("2 computations cannot be"));
  EXPECT_THROW((void)rank_of_stage(schedule), InputError);
}

TEST(Schedule, RefusesIncompleteCommunication) {
  EXPECT_EQ(validation_error({"0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0"}),
            "test: rank 1 lacks 1SEND_B0; write all sends and receives or none");
  EXPECT_THAT(validation_error({"0F0 0SEND_F0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"}), HasSubstr("rank 0 lacks 0RECV_B0"));
}

TEST(Schedule, RefusesMisplacedCommunication) {
  EXPECT_EQ(validation_error({"0SEND_F0 0F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"}),
            "test: rank 0, step 0: 0SEND_F0: sent before step 1 computes it");
  EXPECT_EQ(validation_error({"0F0 0SEND_F0 0RECV_B0 0B0", "1F0 1RECV_F0 1B0 1SEND_B0"}),
            "test: rank 1, step 1: 1RECV_F0: received after step 0 needs it");
  EXPECT_EQ(validation_error({"0F0 0SEND_F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"}),
            "test: rank 0, step 2: 0SEND_F0: occurs before, at step 1");
  EXPECT_EQ(validation_error({"0F0 1SEND_B0 0B0", "1F0 1B0"}),
            "test: rank 0, step 1: 1SEND_B0: stage 1 runs on rank 1");
  EXPECT_EQ(validation_error({"0F0 0SEND_B0 0B0", "1F0 1B0"}), "test: rank 0, step 1: 0SEND_B0: there is no stage -1");
  EXPECT_EQ(validation_error({"0F0 0B0", "1F0 1SEND_F0 1B0"}), "test: rank 1, step 1: 1SEND_F0: there is no stage 2");
  EXPECT_EQ(validation_error({"0F0 0SEND_F0 1F0 1B0 0B0"}),
            "test: rank 0, step 1: 0SEND_F0: stages 0 and 1 share a rank and need no message");
}

TEST(Schedule, KnowsTheRankOfEachStage) {
  EXPECT_THAT(rank_of_stage(schedule_from({"0F0 3F0 3B0 0B0", "1F0 2F0 2B0 1B0"})), ElementsAre(0, 1, 1, 0));
}

TEST(Schedule, CountsActivationsUntilTheWeightGradientIsDone) {
  EXPECT_THAT(
      peak_in_flight_activations(schedule_from({"0F0 0F1 0I0 0F2 0I1 0W0 0I2 0W1 0W2", "1F0 1B0 1F1 1F2 1B2 1B1"})),
      ElementsAre(3, 2));
}

TEST(Schedule, CountsRepeatedActivationsFromTheRecomputation) {
  EXPECT_THAT(held_peaks(schedule_from({"0F0 0F1 0F2 0R0 0R1 0B0 0C2 0B1", "1F0 1B0 1F1 1R1 1I1 1F2 1W1 1C2"})),
              ElementsAre(HeldPeaks{.activations = 2, .inputs = 3}, HeldPeaks{.activations = 1, .inputs = 1}));
}

/// What the rank holds after each of its ops, each counted anew from the definition.
HeldPeaks peaks_by_definition(const std::vector<Action>& actions) {
  const auto place = [&](OpKind kind, const Action& of) {
    const Action wanted{ActionKind::compute, kind, of.stage, of.microbatch};
    return std::find(actions.begin(), actions.end(), wanted) - actions.begin();
  };
  HeldPeaks peaks;
  const auto none = static_cast<std::ptrdiff_t>(actions.size());
  for (std::ptrdiff_t now = 0; now < none; ++now) {
    HeldPeaks held;
    for (const Action& action : actions) {
      if (action.op != OpKind::forward) continue;
      const auto forward = place(OpKind::forward, action);
      const auto inside = place(OpKind::recomputing_backward, action);
      const auto repeated = std::min(place(OpKind::recomputation, action), inside);
      const auto end = std::min(place(OpKind::backward, action), place(OpKind::weight_gradient, action));
      const auto begin = repeated == none ? forward : repeated;
      if (repeated != none && forward <= now && now < repeated) ++held.inputs;
      if (begin <= now && (inside == none ? now < end : now == inside)) ++held.activations;
    }
    peaks.inputs = std::max(peaks.inputs, held.inputs);
    peaks.activations = std::max(peaks.activations, held.activations);
  }
  return peaks;
}

TEST(Schedule, HoldsWhatTheDefinitionCounts) {
  std::mt19937 random(18);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const Schedule schedule = random_schedule(random);
    const std::vector<HeldPeaks> peaks = held_peaks(schedule);
    for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
      EXPECT_EQ(peaks[rank], peaks_by_definition(schedule.ranks[rank]));
      EXPECT_EQ(peak_in_flight_activations(schedule)[rank], peaks[rank].activations);
    }
    if (HasFailure()) return;
  }
}

using testing::Each;
using testing::HasSubstr;

std::vector<Schedule> all_schedules() {
  std::vector<Schedule> schedules;
  for (const ScheduleGenerator& generator : schedule_generators()) {
    for (const int ranks : {1, 2, 4}) {
      schedules.push_back(make_schedule(
          {.name = std::string(generator.name),
           .ranks = ranks,
           .microbatches = 8,
           .chunks = generator.most_chunks > 1 ? 2 : 1,
           .envpipe_stages = std::vector<EnvPipeStage>(static_cast<std::size_t>(ranks), EnvPipeStage{1, 2, {}})}));
    }
  }
  return schedules;
}

TEST(FrozenStages, HaveForwardsAlone) {
  const Schedule frozen = with_frozen_stages(with_communication(one_f_one_b_schedule(2, 2)), 1);
  EXPECT_EQ(row(frozen, 0), "0F0 0SEND_F0 0F1 0SEND_F1");
  EXPECT_EQ(row(frozen, 1), "1RECV_F0 1F0 1RECV_F1 1B0 1F1 1B1");
  EXPECT_EQ(frozen.frozen_stages, 1);
}

TEST(FrozenStages, LoseWeightGradientsOfSplitBackwards) {
  const Schedule frozen = with_frozen_stages(schedule_from({"0F0 0I0 0W0", "1F0 1I0 1W0"}), 1);
  EXPECT_EQ(row(frozen, 0), "0F0");
  EXPECT_EQ(row(frozen, 1), "1F0 1I0 1W0");
}

TEST(FrozenStages, LeaveAScheduleThatRunsWhateverTheirNumber) {
  for (const Schedule& schedule : all_schedules()) {
    const Schedule whole = with_communication(schedule);
    for (int stages = 0; stages <= schedule.stages; ++stages) {
      SCOPED_TRACE(schedule.name + " " + std::to_string(stages) + " of " + std::to_string(schedule.stages));
      const Schedule frozen = with_frozen_stages(whole, stages);
      EXPECT_EQ(find_communication_fault(frozen, P2pGrouping::none), std::nullopt);
      EXPECT_EQ(with_frozen_stages(with_frozen_stages(whole, stages / 2), stages).ranks, frozen.ranks);
      EXPECT_EQ(without_communication(frozen).ranks, with_frozen_stages(schedule, stages).ranks);
      // Messages that are derived for what is left are the same in number and can run, too.
      const Schedule derived = with_communication(with_frozen_stages(schedule, stages));
      EXPECT_EQ(action_count(derived), action_count(frozen));
      EXPECT_EQ(find_communication_fault(derived, P2pGrouping::none), std::nullopt);
    }
  }
}

TEST(FrozenStages, LeaveARandomScheduleThatRuns) {
  std::mt19937 random(11);
  int ran = 0;
  for (int round = 0; round < 4000; ++round) {
    const Schedule schedule = with_random_communication(random_schedule(random), random);
    if (schedule.rank_count() == 1 || find_communication_fault(schedule, P2pGrouping::none)) continue;
    ++ran;
    for (int stages = 0; stages <= schedule.stages; ++stages) {
      EXPECT_EQ(find_communication_fault(with_frozen_stages(schedule, stages), P2pGrouping::none), std::nullopt);
    }
  }
  EXPECT_GT(ran, 20);
}

TEST(FrozenStages, TakePartInTheGraphWithForwardsOnly) {
  const PipelineDag dag = build_dag(with_frozen_stages(one_f_one_b_schedule(3, 4), 2));
  EXPECT_EQ(dag.ops.size(), 3U * 4U + 4U);
  for (const DagEdge& edge : dag.edges) {
    const ComputeOp& from = dag.ops[static_cast<std::size_t>(edge.from)];
    const ComputeOp& to = dag.ops[static_cast<std::size_t>(edge.to)];
    EXPECT_TRUE(from.rank == to.rank || (from.kind == OpKind::forward && to.kind == OpKind::forward));
  }
}

TEST(FrozenStages, AreKnownByTheirActions) {
  for (int stages = 0; stages < 3; ++stages) {
    EXPECT_EQ(stages_without_backward(with_frozen_stages(one_f_one_b_schedule(3, 2), stages)), stages);
  }
  EXPECT_EQ(stages_without_backward(with_frozen_stages(one_f_one_b_schedule(3, 2), 3)), 0);
}

TEST(FrozenStages, KeepNoActivations) {
  const Schedule frozen = with_frozen_stages(gpipe_schedule(3, 4), 2);
  EXPECT_THAT(peak_in_flight_activations(frozen), testing::ElementsAre(0, 0, 4));
  EXPECT_THAT(peak_in_flight_activations(with_frozen_stages(frozen, 3)), Each(0));
}

TEST(FrozenStages, AreRefusedWhereTheyDoNotFit) {
  const Schedule schedule = one_f_one_b_schedule(2, 2);
  EXPECT_THAT(error_of([&] { (void)with_frozen_stages(schedule, 3); }), HasSubstr("3 frozen stages"));
  EXPECT_THAT(error_of([&] { (void)with_frozen_stages(with_frozen_stages(schedule, 2), 1); }),
              HasSubstr("1 frozen stages"));
  Schedule claimed = schedule;
  claimed.frozen_stages = 1;
  EXPECT_THAT(error_of([&] { validate(claimed); }), HasSubstr("stage 0 is frozen and has a backward"));
  Schedule messages = with_frozen_stages(with_communication(schedule), 1);
  messages.ranks[1].push_back({ActionKind::send_b, OpKind::forward, 1, 0});
  EXPECT_THAT(error_of([&] { validate(messages); }), HasSubstr("stage 0 is frozen and receives no gradient"));
}

}  // namespace

}  // namespace lowgear::schedule
