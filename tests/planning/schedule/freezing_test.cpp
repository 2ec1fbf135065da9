#include "planning/schedule/freezing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/core/error_of.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/deadlock.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/schedule_testing.h"

namespace lowgear::schedule {
namespace {

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
           .chunks = generator.takes_chunks ? 2 : 1,
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
