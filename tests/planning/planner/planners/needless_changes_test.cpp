#include "planning/planner/planners/needless_changes.h"

#include <gmock/gmock.h>

#include <vector>

#include "planning/planner/planners/pipeline_planner.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/op_costs.h"
#include "planning/simulator/replay.h"

namespace lowgear::planner {
namespace {

constexpr int kRanks = 3;
constexpr int kMicrobatches = 6;
const std::vector<double> kBlockingW(kRanks, 80);

/// Of stages that take 1, 1.2 and 1.4 times as long; the input gradient of stage 0 takes no time at any clock.
profile::StageProfile profile_with_empty_input_gradient() {
  profile::StageProfile profile(kRanks);
  for (int stage = 0; stage < kRanks; ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::input_gradient, OpKind::weight_gradient}) {
      for (const int clock_mhz : {1980, 1650, 1320, 990}) {
        const bool is_empty = stage == 0 && kind == OpKind::input_gradient;
        const double time_s = is_empty ? 1e-5 : 0.05 * (1 + 0.2 * stage) * (0.3 + 0.7 * 1980 / clock_mhz);
        const double power_w = is_empty ? 80 : 100 + 500.0 * clock_mhz / 1980 * clock_mhz / 1980;
        profile.add(stage, kind, {clock_mhz, time_s, time_s * power_w});
      }
    }
  }
  return profile;
}

schedule::PipelineDag zero_bubble() { return schedule::build_dag(schedule::zb_h1_schedule(kRanks, kMicrobatches)); }

simulator::Timeline replay_of(const schedule::PipelineDag& dag, const std::vector<int>& clocks_mhz) {
  const profile::StageProfile profile = profile_with_empty_input_gradient();
  return simulator::replay(dag, simulator::costs_at_clocks(dag, profile, clocks_mhz), kBlockingW);
}

bool is_empty(const schedule::ComputeOp& op) { return op.stage == 0 && op.kind == OpKind::input_gradient; }

TEST(NeedlessChanges, AreTakenOutWhereTheClockMakesNoDifference) {
  const schedule::PipelineDag dag = zero_bubble();
  const profile::StageProfile profile = profile_with_empty_input_gradient();
  std::vector<int> clocks_mhz;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    clocks_mhz.push_back(is_empty(dag.ops[op]) ? 990 : (op % 2 == 0 ? 1980 : 1650));
  }
  const std::vector<int> fewer_mhz =
      without_needless_changes(dag, profile, kBlockingW, PlanGranularity::per_op, {clocks_mhz, {}}).clocks_mhz;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    EXPECT_EQ(fewer_mhz[op], is_empty(dag.ops[op]) ? fewer_mhz[op - 1] : clocks_mhz[op]) << op;
  }
  EXPECT_EQ(replay_of(dag, fewer_mhz).time_s, replay_of(dag, clocks_mhz).time_s);
  EXPECT_DOUBLE_EQ(replay_of(dag, fewer_mhz).energy_j_total, replay_of(dag, clocks_mhz).energy_j_total);
}

TEST(NeedlessChanges, KeepOneClockPerStageAndKindWhereTheyShareIt) {
  const schedule::PipelineDag dag = zero_bubble();
  std::vector<int> clocks_mhz;
  for (const schedule::ComputeOp& op : dag.ops) clocks_mhz.push_back(op.kind == OpKind::forward ? 1650 : 990);
  const std::vector<int> fewer_mhz = without_needless_changes(dag, profile_with_empty_input_gradient(), kBlockingW,
                                                              PlanGranularity::per_stage_kind, {clocks_mhz, {}})
                                         .clocks_mhz;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    EXPECT_EQ(fewer_mhz[op], is_empty(dag.ops[op]) ? 1650 : clocks_mhz[op]) << op;
  }
}

TEST(NeedlessChanges, AreInNoPlan) {
  const profile::StageProfile profile = profile_with_empty_input_gradient();
  for (const PlanGranularity granularity : {PlanGranularity::per_op, PlanGranularity::per_stage_kind}) {
    PlannerOptions options;
    options.granularity = granularity;
    PipelinePlanner planner(schedule::zb_h1_schedule(kRanks, kMicrobatches), profile, kBlockingW, options);
    for (const double share : {0.0, 0.5, 1.0}) {
      SCOPED_TRACE(share);
      const plan::Plan plan = planner.plan(planner.fastest_s() + share * (planner.slowest_s() - planner.fastest_s()));
      EXPECT_LE(plan.time_s, plan.deadline_s * (1 + 1e-12));
      EXPECT_EQ(plan.switches, count_switches(plan.ranks));
      const std::vector<plan::PlannedOp>& first_rank = plan.ranks.front();
      for (std::size_t at = 1; at < first_rank.size(); ++at) {
        if (first_rank[at].kind != OpKind::input_gradient) continue;
        EXPECT_EQ(first_rank[at].clock_mhz, first_rank[at - 1].clock_mhz) << at;
        if (granularity == PlanGranularity::per_stage_kind) break;  // others share it
      }
    }
  }
}

}  // namespace
}  // namespace lowgear::planner
