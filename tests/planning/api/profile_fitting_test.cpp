#include "planning/api/profile_fitting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/core/error_of.h"
#include "planning/planner/policies/sample_problem.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/generators.h"

namespace lowgear::api {

namespace {

using ::testing::HasSubstr;

profile::StageProfile profile_of(int stages) {
  std::vector<double> forward_s;
  for (int stage = 0; stage < stages; ++stage) forward_s.push_back(0.05 + 0.002 * stage);
  return planner::modelled_profile(forward_s, 1305);
}

TEST(FitProfile, CutsStagesIntoVirtualOnes) {
  const schedule::Schedule schedule = schedule::interleaved_schedule(3, 6, 2);
  const profile::StageProfile profile = fit_profile(profile_of(3), schedule, {});
  ASSERT_EQ(profile.stages(), 6);
  for (int stage = 0; stage < 6; ++stage) {
    EXPECT_DOUBLE_EQ(profile.at_max_clock(stage, OpKind::forward).time_s,
                     profile_of(3).at_max_clock(stage % 3, OpKind::forward).time_s / 2);
  }
}

TEST(FitProfile, TakesOneWithAllVirtualStagesAsItIs) {
  const profile::StageProfile profile = fit_profile(profile_of(6), schedule::interleaved_schedule(3, 6, 2), {});
  EXPECT_EQ(profile::write_profile_file({.profile = profile}), profile::write_profile_file({.profile = profile_of(6)}));
}

TEST(FitProfile, CutsStagesAsTheScheduleDistributesThem) {
  // A "V": rank 0 runs the virtual stages 0 and 3.
  schedule::Schedule schedule{"v", 4, 1, {}};
  const auto op = [](OpKind kind, int stage) {
    return schedule::Action{schedule::ActionKind::compute, kind, stage, 0};
  };
  schedule.ranks = {{op(OpKind::forward, 0), op(OpKind::forward, 3), op(OpKind::backward, 3), op(OpKind::backward, 0)},
                    {op(OpKind::forward, 1), op(OpKind::forward, 2), op(OpKind::backward, 2), op(OpKind::backward, 1)}};
  const profile::StageProfile cut = fit_profile(profile_of(2), schedule, {});
  ASSERT_EQ(cut.stages(), 4);
  for (const int stage : {0, 1, 2, 3}) {
    const int rank = stage == 0 || stage == 3 ? 0 : 1;
    EXPECT_DOUBLE_EQ(cut.at_max_clock(stage, OpKind::forward).time_s,
                     profile_of(2).at_max_clock(rank, OpKind::forward).time_s / 2);
  }
  EXPECT_THAT(error_of([&] { (void)fit_profile(profile_of(3), schedule, {}); }),
              HasSubstr("3 stages and v has 4 virtual ones on 2 ranks; give a profile of 4 stages"));
  EXPECT_EQ(error_of([&] { (void)fit_profile(profile_of(3), schedule::one_f_one_b_schedule(2, 4), {}); }),
            "the profile has 3 stages and 1f1b has 2; give a schedule of 3 stages, or a profile of 2 stages");
  EXPECT_EQ(fit_profile(profile_of(4), schedule, {}).stages(), 4);
}

TEST(FitProfile, SplitsBackwardsOnlyWhereTheScheduleDoes) {
  const profile::StageProfile whole =
      fit_profile(profile_of(3), schedule::one_f_one_b_schedule(3, 4), {.backward_split = 0.4});
  EXPECT_FALSE(whole.has(0, OpKind::input_gradient));
  const profile::StageProfile split =
      fit_profile(profile_of(3), schedule::zb_h1_schedule(3, 4), {.backward_split = 0.4});
  EXPECT_DOUBLE_EQ(split.at_max_clock(0, OpKind::input_gradient).time_s,
                   0.4 * whole.at_max_clock(0, OpKind::backward).time_s);
  EXPECT_THAT(error_of([] { (void)fit_profile(profile_of(3), schedule::zb_h1_schedule(3, 4), {}); }),
              HasSubstr("--backward-split"));
}

TEST(FitProfile, FrozenStagesNeedForwardsAlone) {
  const profile::StageProfile whole = profile_of(3);
  profile::StageProfile frozen(3);
  for (const profile::StageOp& op : whole.ops()) {
    if (op.stage == 0 && op.kind != OpKind::forward) continue;
    for (const profile::Measurement& row : op.measurements) frozen.add(op.stage, op.kind, row);
  }
  const profile::StageProfile split =
      fit_profile(frozen, with_frozen_stages(schedule::zb_h1_schedule(3, 4), 1), {.backward_split = 0.4});
  EXPECT_FALSE(split.has(0, OpKind::input_gradient));
  EXPECT_TRUE(split.has(1, OpKind::input_gradient));
  EXPECT_THAT(error_of([&] { (void)fit_profile(frozen, schedule::one_f_one_b_schedule(3, 4), {}); }),
              HasSubstr("1f1b has backwards of stage 0, and the profile has only its forwards"));
}

TEST(FitProfile, AddsRecomputationsOnlyWhereTheScheduleHasThem) {
  const schedule::Schedule merak = schedule::make_schedule({"merak-early-recompute", 3, 4, 1, {}});
  const profile::StageProfile plain = fit_profile(profile_of(3), schedule::one_f_one_b_schedule(3, 4), {{}, 0.9});
  EXPECT_FALSE(plain.has(0, OpKind::recomputation));
  const profile::StageProfile fitted = fit_profile(profile_of(3), merak, {.recomputation = 0.9});
  EXPECT_DOUBLE_EQ(fitted.at_max_clock(0, OpKind::recomputation).time_s,
                   0.9 * plain.at_max_clock(0, OpKind::forward).time_s);
  EXPECT_EQ(error_of([&] { (void)fit_profile(profile_of(3), merak, {}); }),
            "the schedule merak-early-recompute recomputes, and the profile has no recomputing_backward for stage 0: "
            "measure it, or state recomputation_share, its share of the forward's time and energy (about 1)");
}

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

TEST(PlanningMemory, RefusesWhatDoesNotFitWithTheEstimate) {
  EXPECT_NO_THROW(require_planning_memory(8, 96, 1, kGib));
  const std::string error = error_of([] { require_planning_memory(1024, 100000, 2, 4 * kGib); });
  EXPECT_THAT(error, AllOf(HasSubstr("2048 stages x 100000 microbatches"), HasSubstr("4 GiB are available"),
                           HasSubstr("plan fewer stages or microbatches")));
}

TEST(PlanningMemory, AnUnknownAmountIsNotChecked) {
  EXPECT_NO_THROW(require_planning_memory(1024, 100000, 2, std::nullopt));
}

TEST(PlanningMemory, TheLargestNumbersDoNotOverflow) {
  EXPECT_NE(error_of([] { require_planning_memory(65536, 1'000'000, 1024, kGib); }), "");
}

}  // namespace

}  // namespace lowgear::api
