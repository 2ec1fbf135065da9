#include "planning/planner/planners/shared_clock_planner.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planning/planner/random_pipelines.h"
#include "planning/schedule/generators.h"

namespace lowgear::planner {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

int clock_mhz(const PlanningModel& model, const DiscretePlan& plan, int op) {
  return model.choices_of(op)[static_cast<std::size_t>(plan.choice[static_cast<std::size_t>(op)])].clock_mhz;
}

/// Recounts a plan's figures, and checks that it keeps the deadline and each group has one clock.
void expect_shares_clocks(const PlanningModel& model, const ClockGroups& groups, const DiscretePlan& plan,
                          TimePs deadline_ps) {
  std::map<int, std::set<int>> clocks_of_group;
  std::vector<TimePs> time_ps;
  EnergyZj energy_zj = 0;
  for (int op = 0; op < model.instance.op_count(); ++op) {
    clocks_of_group[groups.group_of_op[static_cast<std::size_t>(op)]].insert(clock_mhz(model, plan, op));
    const ClockChoice& choice =
        model.choices_of(op)[static_cast<std::size_t>(plan.choice[static_cast<std::size_t>(op)])];
    time_ps.push_back(choice.time_ps);
    energy_zj += choice.effective_energy_zj;
  }
  for (const auto& [group, clocks_mhz] : clocks_of_group) EXPECT_THAT(clocks_mhz, SizeIs(1)) << "group " << group;
  EXPECT_EQ(plan.makespan_ps, makespan_ps(model.instance, time_ps));
  EXPECT_LE(plan.makespan_ps, deadline_ps);
  EXPECT_TRUE(plan.effective_energy_zj == energy_zj);
}

TEST(ClockGroups, AreTheStagesAndKindsOrTheRanks) {
  SamplePipeline pipeline;
  pipeline.schedule = schedule::one_f_one_b_schedule(2, 2);
  pipeline.dag = build_dag(pipeline.schedule);
  pipeline.profile = profile::StageProfile(2);
  for (int stage = 0; stage < 2; ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) pipeline.profile.add(stage, kind, {1410, 0.1, 30});
  }
  pipeline.blocking_power_w = {80, 80};
  const ClockGroups by_rank = groups_by_rank(pipeline.dag);
  EXPECT_EQ(by_rank.count, 2);
  EXPECT_THAT(by_rank.group_of_op, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  const ClockGroups by_kind = groups_by_stage_and_kind(pipeline.model());
  EXPECT_EQ(by_kind.count, 4);
  EXPECT_THAT(by_kind.group_of_op, ElementsAre(0, 0, 1, 1, 2, 3, 2, 3)) << "F F B B, and F B F B on the last rank";
}

TEST(SharedClockPlanner, KeepsEveryDeadlineOnRandomPipelines) {
  std::mt19937_64 random(11);
  int by_rank_found = 0;
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE("pipeline " + std::to_string(i));
    const SamplePipeline pipeline = random_pipeline(random);
    const PlanningModel model = pipeline.model();
    const Frontier frontier = solve_frontier(model.instance);
    DeadlineSolver solver(model.instance, nullptr);
    for (const ClockGroups& groups : {groups_by_stage_and_kind(model), groups_by_rank(pipeline.dag)}) {
      const bool is_by_rank = groups.group_of_op == groups_by_rank(pipeline.dag).group_of_op;
      SharedClockPlanner planner(model, groups);
      for (int k = 0; k <= 4; ++k) {
        const TimePs deadline_ps = frontier.fastest_ps() + (frontier.slowest_ps() - frontier.fastest_ps()) / 4 * k;
        const std::optional<DiscretePlan> plan = planner.plan(solver.solve(deadline_ps));
        // Every (stage, kind) can run at its fastest; a rank need not have one clock that is fastest for all it runs.
        ASSERT_TRUE(is_by_rank || plan.has_value()) << "deadline " << k;
        if (!plan) continue;
        by_rank_found += is_by_rank ? 1 : 0;
        expect_shares_clocks(model, groups, *plan, deadline_ps);
        const double energy_j = j_from_zj(plan->total_energy_zj(model.instance.blocking_power_nw));
        EXPECT_GE(energy_j, frontier.lower_bound_j_at(plan->makespan_ps) * (1 - 1e-9));
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(by_rank_found, 60) << "hardly anything was checked";
}

/// The least energy of any choice of one clock per (stage, kind) within the deadline.
EnergyZj least_total_energy_zj(const PlanningModel& model, TimePs deadline_ps) {
  std::optional<EnergyZj> least_zj;
  std::vector<std::size_t> position(model.choices.size(), 0);
  while (true) {
    std::vector<TimePs> time_ps;
    EnergyZj energy_zj = 0;
    for (int op = 0; op < model.instance.op_count(); ++op) {
      const int cost = model.instance.cost_of_op[static_cast<std::size_t>(op)];
      const ClockChoice& choice = model.choices_of(op)[position[static_cast<std::size_t>(cost)]];
      time_ps.push_back(choice.time_ps);
      energy_zj += choice.effective_energy_zj;
    }
    if (makespan_ps(model.instance, time_ps) <= deadline_ps)
      least_zj = std::min(least_zj.value_or(energy_zj), energy_zj);
    std::size_t digit = 0;
    while (digit < position.size() && ++position[digit] == model.choices[digit].size()) position[digit++] = 0;
    if (digit == position.size()) return least_zj.value();
  }
}

TEST(SharedClockPlanner, ComesCloseToTheBestOnSmallPipelines) {
  std::mt19937_64 random(12);
  int best = 0;
  int plans = 0;
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE("pipeline " + std::to_string(i));
    const RandomPipelineLimits limits{.max_ranks = 2, .max_microbatches = 3, .max_clocks = 4, .split_backward = false};
    const SamplePipeline pipeline = random_pipeline(random, limits);
    const PlanningModel model = pipeline.model();
    const Frontier frontier = solve_frontier(model.instance);
    DeadlineSolver solver(model.instance, nullptr);
    SharedClockPlanner planner(model, groups_by_stage_and_kind(model));
    for (int k = 0; k <= 2; ++k) {
      const TimePs deadline_ps = frontier.fastest_ps() + (frontier.slowest_ps() - frontier.fastest_ps()) / 2 * k;
      const std::optional<DiscretePlan> plan = planner.plan(solver.solve(deadline_ps));
      ASSERT_TRUE(plan.has_value());
      const EnergyZj least_zj = least_total_energy_zj(model, deadline_ps);
      EXPECT_TRUE(plan->effective_energy_zj >= least_zj);
      best += plan->effective_energy_zj == least_zj ? 1 : 0;
      ++plans;
    }
  }
  EXPECT_GE(best, plans * 9 / 10) << "of " << plans;
}

/// Eight stages, of which the last takes 7 % longer, at 21 clocks.
SamplePipeline slow_last_stage() {
  constexpr int kStages = 8;
  SamplePipeline pipeline;
  pipeline.schedule = schedule::one_f_one_b_schedule(kStages, 12);
  pipeline.dag = build_dag(pipeline.schedule);
  pipeline.profile = profile::StageProfile(kStages);
  for (int stage = 0; stage < kStages; ++stage) {
    const double work = stage == kStages - 1 ? 1.07 : 1;
    for (int mhz = 1110; mhz <= 1410; mhz += 15) {
      const double share = mhz / 1410.0;
      const double forward_s = 0.05 * work * (0.25 + 0.75 / share);
      const double power_w = 110 + 220 * share * share * share;
      pipeline.profile.add(stage, OpKind::forward, {mhz, forward_s, forward_s * power_w});
      pipeline.profile.add(stage, OpKind::backward, {mhz, 1.8 * forward_s, 1.8 * forward_s * power_w});
    }
  }
  pipeline.blocking_power_w.assign(kStages, 84);
  return pipeline;
}

TEST(SharedClockPlanner, IsNotBeatenByStagesThatAllTakeTheTimeOfTheSlowest) {
  const SamplePipeline pipeline = slow_last_stage();
  const PlanningModel model = pipeline.model();
  std::vector<TimePs> time_ps;
  EnergyZj even_zj = 0;
  for (int op = 0; op < model.instance.op_count(); ++op) {
    const int clock_mhz = model.rank_of_op[static_cast<std::size_t>(op)] == 7 ? 1410 : 1290;
    const ClockChoice& choice = *std::ranges::find(model.choices_of(op), clock_mhz, &ClockChoice::clock_mhz);
    time_ps.push_back(choice.time_ps);
    even_zj += choice.effective_energy_zj;
  }
  const TimePs deadline_ps = makespan_ps(model.instance, time_ps);
  DeadlineSolver solver(model.instance, nullptr);
  const std::optional<DiscretePlan> plan =
      SharedClockPlanner(model, groups_by_stage_and_kind(model)).plan(solver.solve(deadline_ps));
  ASSERT_TRUE(plan.has_value());
  EXPECT_LE(plan->makespan_ps, deadline_ps);
  EXPECT_TRUE(plan->effective_energy_zj <= even_zj);
}

/// One forward and one backward on one GPU.
SamplePipeline two_ops(const std::vector<profile::Measurement>& forward,
                       const std::vector<profile::Measurement>& backward) {
  SamplePipeline pipeline;
  pipeline.schedule = schedule::one_f_one_b_schedule(1, 1);
  pipeline.dag = build_dag(pipeline.schedule);
  pipeline.profile = profile::StageProfile(1);
  for (const profile::Measurement& measurement : forward) pipeline.profile.add(0, OpKind::forward, measurement);
  for (const profile::Measurement& measurement : backward) pipeline.profile.add(0, OpKind::backward, measurement);
  pipeline.blocking_power_w = {0};
  return pipeline;
}

std::optional<DiscretePlan> plan_by_rank(const SamplePipeline& pipeline, double deadline_s) {
  const PlanningModel model = pipeline.model();
  DeadlineSolver solver(model.instance, nullptr);
  return SharedClockPlanner(model, groups_by_rank(pipeline.dag)).plan(solver.solve(ps_from_s(deadline_s)));
}

TEST(SharedClockPlanner, KnowsTheFastestClockWhereItIsNotTheHighest) {
  const std::vector<profile::Measurement> swapped{{1410, 1.01, 9}, {1395, 1.0, 10}, {1380, 1.05, 8}};
  const PlanningModel model = two_ops(swapped, swapped).model();
  DeadlineSolver solver(model.instance, nullptr);
  SharedClockPlanner planner(model, groups_by_stage_and_kind(model));
  const std::optional<DiscretePlan> plan = planner.plan(solver.solve(ps_from_s(2.0)));
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(clock_mhz(model, *plan, 0), 1395);
  EXPECT_EQ(clock_mhz(model, *plan, 1), 1395);
}

TEST(SharedClockPlanner, SharesAClockBetweenTheKindsOfARank) {
  const SamplePipeline pipeline =
      two_ops({{1410, 1.0, 10}, {1200, 1.2, 8}, {1000, 1.5, 7}}, {{1410, 2.0, 20}, {1000, 3.0, 12}});
  EXPECT_THAT(plan_by_rank(pipeline, 4.5)->choice, ElementsAre(2, 1)) << "1000 MHz: 1200 MHz is not there for both";
  EXPECT_THAT(plan_by_rank(pipeline, 4.4)->choice, Each(0));
  EXPECT_EQ(plan_by_rank(pipeline, 4.5)->makespan_ps, ps_from_s(4.5));
}

TEST(SharedClockPlanner, FindsNoneWhereNoClockIsSharedOrFastEnough) {
  EXPECT_FALSE(plan_by_rank(two_ops({{1410, 1.0, 10}}, {{1395, 2.0, 20}}), 3.0).has_value());
  const SamplePipeline pipeline = two_ops({{1410, 1.0, 10}, {1395, 1.1, 9}}, {{1410, 2.1, 20}, {1395, 2.0, 21}});
  EXPECT_FALSE(plan_by_rank(pipeline, 3.0).has_value()) << "T_min needs both clocks";
  EXPECT_TRUE(plan_by_rank(pipeline, 3.1).has_value());
}

}  // namespace
}  // namespace lowgear::planner
