#include "planning/api/job_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/core/error_of.h"
#include "planning/api/small_job.h"
#include "planning/simulator/replay.h"

namespace lowgear::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Replan, AJobWithoutStragglersIsOneGroup) {
  const schedule::PipelineDag dag = build_dag(small_schedule());
  const Replan result = replan(dag, small_profile(), 3, {}, 5);
  ASSERT_EQ(result.groups.size(), 1);
  EXPECT_THAT(result.groups[0].replicas, ElementsAre(0, 1, 2));
  planner::PipelinePlanner planner(small_schedule(), small_profile(), kSmallBlockingW, {});
  EXPECT_NEAR(result.fastest_time_s, planner.fastest_s(), 1e-9);
  EXPECT_NEAR(result.deadline_s, planner.fastest_s() * 1.05, 1e-9);
}

TEST(Replan, GroupsReplicasWithTheSameSlowdowns) {
  const schedule::PipelineDag dag = build_dag(small_schedule());
  const std::vector<RankSlowdown> slowdowns = {{4, 1, 1.2}, {1, 1, 1.1}, {2, 3, 1.2}, {1, 1, 1.2 / 1.1}, {3, 0, 1}};
  const Replan result = replan(dag, small_profile(), 6, slowdowns, 0);
  ASSERT_EQ(result.groups.size(), 3);
  EXPECT_THAT(result.groups[0].replicas, ElementsAre(0, 3, 5)) << "a factor of 1 is no slowdown";
  EXPECT_THAT(result.groups[1].replicas, ElementsAre(1, 4)) << "1.1 and then 1.2 / 1.1 are 1.2";
  EXPECT_THAT(result.groups[2].replicas, ElementsAre(2));
  EXPECT_EQ(result.groups[2].slowdowns.at(0).stage, 3);
  EXPECT_EQ(result.groups[2].slowdowns.at(0).factor, 1.2);
}

TEST(Replan, TheSlowestReplicaSetsTheDeadline) {
  const schedule::PipelineDag dag = build_dag(small_schedule());
  const profile::StageProfile profile = small_profile();
  const std::vector<RankSlowdown> slowdowns = {{0, 2, 1.1}, {1, 0, 1.3}};
  const Replan result = replan(dag, profile, 2, slowdowns, 0);
  // By a replay at the highest clocks.
  const std::vector<int> clocks_mhz(dag.ops.size(), profile.at_max_clock(0, OpKind::forward).clock_mhz);
  const std::vector<double> work = slowed_work(dag, std::vector<simulator::StageSlowdown>{{0, 1.3}});
  const auto costs = simulator::costs_at_clocks(dag, profile, clocks_mhz, {.work = work, .clocks_before_mhz = {}});
  EXPECT_NEAR(result.deadline_s, replay(dag, costs, kSmallBlockingW).time_s, 1e-9);
  for (const ReplicaGroup& group : result.groups) {
    planner::PipelinePlanner planner(small_schedule(), group.profile, kSmallBlockingW, {});
    EXPECT_NEAR(group.fastest_time_s, planner.fastest_s(), 1e-9);
    EXPECT_LE(planner.plan(result.deadline_s).time_s, result.deadline_s * (1 + 1e-9));
  }
}

TEST(Replan, WaitingForAStragglerSavesEnergyAndNoTime) {
  const schedule::PipelineDag dag = build_dag(small_schedule());
  const Replan slow = replan(dag, small_profile(), 4, std::vector<RankSlowdown>{{2, 1, 1.2}}, 0);
  std::vector<plan::Plan> fastest;
  std::vector<plan::Plan> planned;
  for (const ReplicaGroup& group : slow.groups) {
    planner::PipelinePlanner planner(small_schedule(), group.profile, kSmallBlockingW, {});
    fastest.push_back(planner.plan(planner.fastest_s()));
    planned.push_back(planner.plan(slow.deadline_s));
  }
  const simulator::PipelineFigures before = job_figures(slow, fastest, 4 * 80);
  const simulator::PipelineFigures after = job_figures(slow, planned, 4 * 80);
  EXPECT_NEAR(before.time_s, slow.deadline_s, 1e-9);
  EXPECT_LE(after.time_s, slow.deadline_s * (1 + 1e-9));
  EXPECT_LT(after.energy_j, 0.97 * before.energy_j);
  EXPECT_GT(after.energy_j, 0);
}

TEST(Replan, ARankOfAnInterleavedScheduleSlowsAllItsStages) {
  const schedule::Schedule schedule = schedule::interleaved_schedule(2, 4, 2);
  const profile::StageProfile profile = small_profile();
  const Replan result = replan(build_dag(schedule), profile, 1, std::vector<RankSlowdown>{{0, 1, 1.5}}, 0);
  ASSERT_EQ(result.groups.size(), 1);
  ASSERT_EQ(result.groups[0].slowdowns.size(), 2);
  EXPECT_EQ(result.groups[0].slowdowns[0].stage, 1);
  EXPECT_EQ(result.groups[0].slowdowns[1].stage, 3);
  const profile::Measurement& before = profile.at_max_clock(3, OpKind::backward);
  const profile::Measurement& slowed = result.groups[0].profile.at_max_clock(3, OpKind::backward);
  EXPECT_DOUBLE_EQ(slowed.time_s, 1.5 * before.time_s);
  EXPECT_DOUBLE_EQ(slowed.energy_j, 1.5 * before.energy_j);
}

TEST(Replan, RefusesBadInput) {
  const schedule::PipelineDag dag = build_dag(small_schedule());
  const profile::StageProfile profile = small_profile();
  const auto error = [&](RankSlowdown slowdown, int replicas = 2, double allowed_pct = 0) {
    return error_of([&] { (void)replan(dag, profile, replicas, std::vector{slowdown}, allowed_pct); });
  };
  EXPECT_THAT(error({2, 0, 1.2}), HasSubstr("replica 2: the job has replicas 0 to 1"));
  EXPECT_THAT(error({0, 4, 1.2}), HasSubstr("rank 4: the pipeline has ranks 0 to 3"));
  EXPECT_THAT(error({0, 0, 0}), HasSubstr("factor of 0"));
  EXPECT_THAT(error({0, 0, std::numeric_limits<double>::quiet_NaN()}), HasSubstr("factor of nan"));
  EXPECT_THAT(error({0, 0, 1.2}, 0), HasSubstr("0 replicas"));
  EXPECT_THAT(error({0, 0, 1.2}, 2, -1), HasSubstr("-1 %"));
  EXPECT_THAT(error_of([&] { (void)replan(dag, profile::StageProfile(2), 1, {}, 0); }),
              testing::Not(HasSubstr("no error")));
  EXPECT_THAT(error_of([&] { (void)job_figures(replan(dag, profile, 1, {}, 0), {}, 0); }), HasSubstr("0 plans for 1"));
}

}  // namespace
}  // namespace lowgear::api
