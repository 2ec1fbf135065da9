#include "planning/planner/planners/planning_model.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "base/core/error_of.h"
#include "planning/planner/random_pipelines.h"
#include "planning/schedule/generators.h"

namespace lowgear::planner {
namespace {

using ::testing::HasSubstr;

/// One forward and one backward on one GPU. At 80 W of blocking power, 1000 MHz costs the forward more than 1200.
profile::StageProfile one_stage_profile() {
  profile::StageProfile profile(1);
  profile.add(0, OpKind::forward, {1400, 0.010, 4.0});
  profile.add(0, OpKind::forward, {1200, 0.012, 3.5});
  profile.add(0, OpKind::forward, {1000, 0.011, 3.7});  // faster than 1200 MHz, by noise
  profile.add(0, OpKind::backward, {1400, 0.020, 8.0});
  profile.add(0, OpKind::backward, {1200, 0.024, 8.5});  // slower, and more energy even when waiting is paid for
  return profile;
}

TEST(PlanningModel, OffersTheParetoOptionsOnEffectiveEnergyFastestFirst) {
  const std::vector<double> blocking_power_w{80};
  const PlanningModel model = make_planning_model(schedule::build_dag(schedule::one_f_one_b_schedule(1, 1)),
                                                  one_stage_profile(), blocking_power_w);
  const std::vector<ClockChoice>& forward = model.choices_of(0);
  ASSERT_EQ(forward.size(), 3U);
  EXPECT_EQ(forward[0].clock_mhz, 1400);
  EXPECT_EQ(forward[1].clock_mhz, 1000) << "by time, whatever the clock";
  EXPECT_EQ(forward[2].clock_mhz, 1200);
  EXPECT_EQ(forward[2].time_ps, 12'000'000'000);
  EXPECT_NEAR(j_from_zj(forward[2].effective_energy_zj), 3.5 - 80 * 0.012, 1e-15);
  const std::vector<ClockChoice>& backward = model.choices_of(1);
  ASSERT_EQ(backward.size(), 1U);
  EXPECT_EQ(backward[0].clock_mhz, 1400);
  EXPECT_EQ(model.instance.blocking_power_nw, 80'000'000'000);
}

TEST(PlanningModel, ChargesBlockingPowerOfTheRankThatRunsTheStage) {
  // Interleaved: virtual stages 0 and 2 on rank 0, 1 and 3 on rank 1.
  profile::StageProfile profile(4);
  for (int stage = 0; stage < 4; ++stage) {
    profile.add(stage, OpKind::forward, {1400, 0.010, 4});
    profile.add(stage, OpKind::backward, {1400, 0.020, 8});
  }
  const schedule::PipelineDag dag = schedule::build_dag(schedule::interleaved_schedule(2, 2, 2));
  const PlanningModel model = make_planning_model(dag, profile, std::vector<double>{50, 70});
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    const bool forward = dag.ops[op].kind == OpKind::forward;
    const double blocking_power_w = dag.ops[op].stage % 2 == 0 ? 50 : 70;
    const double expected_j = forward ? 4 - blocking_power_w * 0.010 : 8 - blocking_power_w * 0.020;
    EXPECT_NEAR(j_from_zj(model.choices_of(static_cast<int>(op)).front().effective_energy_zj), expected_j, 1e-12);
  }
  EXPECT_EQ(model.instance.blocking_power_nw, 120'000'000'000);
}

TEST(PlanningModel, NamesWhatTheProfileLacks) {
  profile::StageProfile profile(2);
  for (int stage = 0; stage < 2; ++stage) profile.add(stage, OpKind::forward, {1400, 0.010, 4});
  profile.add(0, OpKind::backward, {1400, 0.010, 4});
  EXPECT_THAT(error_of([&] {
                (void)make_planning_model(schedule::build_dag(schedule::one_f_one_b_schedule(2, 1)), profile,
                                          std::vector<double>{50, 70});
              }),
              testing::AllOf(HasSubstr("backward"), HasSubstr("1")));
}

TEST(PlanningModel, HasOneCostForEachStageAndKind) {
  std::mt19937_64 random(51);
  for (int i = 0; i < 60; ++i) {
    const SamplePipeline pipeline = random_pipeline(random);
    const PlanningModel model = pipeline.model();
    ASSERT_EQ(model.instance.op_count(), static_cast<int>(pipeline.dag.ops.size()));
    ASSERT_EQ(model.choices.size(), model.instance.costs.size());
    std::map<int, std::pair<int, OpKind>> cell_of_cost;
    std::map<std::pair<int, OpKind>, int> cost_of_cell;
    for (std::size_t op = 0; op < pipeline.dag.ops.size(); ++op) {
      const std::pair cell(pipeline.dag.ops[op].stage, pipeline.dag.ops[op].kind);
      const int cost = model.instance.cost_of_op[op];
      EXPECT_EQ(cost_of_cell.try_emplace(cell, cost).first->second, cost);
      EXPECT_EQ(cell_of_cost.try_emplace(cost, cell).first->second, cell);
    }
    EXPECT_EQ(cell_of_cost.size(), model.instance.costs.size());
  }
}

TEST(PlanningModel, ItsCostsAreTheHullsOfItsChoices) {
  std::mt19937_64 random(52);
  for (int i = 0; i < 60; ++i) {
    const PlanningModel model = random_pipeline(random).model();
    for (std::size_t c = 0; c < model.choices.size(); ++c) {
      const ConvexCost& cost = model.instance.costs[c];
      const std::vector<ClockChoice>& choices = model.choices[c];
      EXPECT_EQ(cost.fastest_ps(), choices.front().time_ps);
      EXPECT_EQ(cost.slowest_ps(), choices.back().time_ps);
      for (std::size_t k = 0; k < choices.size(); ++k) {
        EXPECT_TRUE(k == 0 || choices[k - 1].time_ps < choices[k].time_ps);
        EXPECT_TRUE(k == 0 || choices[k - 1].effective_energy_zj > choices[k].effective_energy_zj);
        EXPECT_LE(j_from_zj(cost.energy_zj(choices[k].time_ps)),
                  j_from_zj(choices[k].effective_energy_zj) + 1e-9 * s_from_ps(cost.slowest_ps()));
      }
      for (const TimePs corner_ps : cost.time_ps) {
        const auto at_corner = [corner_ps](const ClockChoice& choice) { return choice.time_ps == corner_ps; };
        EXPECT_TRUE(std::any_of(choices.begin(), choices.end(), at_corner)) << "a corner is a clock";
      }
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace lowgear::planner
