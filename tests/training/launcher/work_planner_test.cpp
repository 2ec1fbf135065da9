#include "training/launcher/work_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "planning/plan/plan_json.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/freezing.h"
#include "training/launcher/training_schedule.h"
#include "training/launcher/twelve_blocks.h"

namespace lowgear::launcher {
namespace {

using testing::HasSubstr;

constexpr int kStages = 4;

/// Four stages of three equal layers, the last one with a head.
std::string profile_text() {
  profile::StageProfile profile(kStages);
  for (int stage = 0; stage < kStages; ++stage) {
    for (const int clock_mhz : {1400, 1200, 1000}) {
      const double slower = 1400.0 / clock_mhz;
      const double layers = stage == kStages - 1 ? 3.5 : 3;
      const double time_s = 0.01 * layers * slower;
      const double energy_j = time_s * (100 + 260 / (slower * slower * slower));
      profile.add(stage, OpKind::forward, {clock_mhz, time_s, energy_j});
      profile.add(stage, OpKind::backward, {clock_mhz, 2 * time_s, 2 * energy_j});
    }
  }
  return profile::write_stage_profile(profile);
}

class PlannedJob : public testing::Test {
 protected:
  void SetUp() override {
    write_file_atomically(folder_ / "profile.csv", profile_text());
    config_ = twelve_blocks(kStages);
    config_.adapt.repartition.emplace();
    config_.adapt.repartition->automatic = true;
    config_.adapt.repartition->profile.emplace();
    config_.adapt.repartition->profile->file = folder_ / "profile.csv";
    config_.adapt.repartition->profile->blocking_power = "80";
  }

  /// Expects that ranks that train the partition compute what the plan has clocks for, in its order.
  void expect_units(const PlannedPartition& planned, std::int64_t frozen) {
    TrainConfig config = config_;
    config.partition = model::partition_text(planned.partition);
    const schedule::Schedule schedule = without_communication(training_schedule(config, frozen));
    const plan::Plan plan = plan::read_plan(planned.plan, "plan");
    ASSERT_EQ(plan.ranks.size(), schedule.ranks.size());
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      ASSERT_EQ(plan.ranks[rank].size(), schedule.ranks[rank].size()) << rank;
      for (std::size_t i = 0; i < plan.ranks[rank].size(); ++i) {
        EXPECT_EQ(plan.ranks[rank][i].kind, schedule.ranks[rank][i].op);
        EXPECT_EQ(plan.ranks[rank][i].microbatch, schedule.ranks[rank][i].microbatch);
      }
    }
  }

  TemporaryFolder folder_;
  TrainConfig config_;
};

TEST_F(PlannedJob, BeginsWithItsOwnPartitionAtItsFastestTime) {
  const WorkPlanner planner(config_);
  EXPECT_EQ(model::partition_text(planner.first().partition), "custom:0,3,6,9,12");
  expect_units(planner.first(), 0);
  const PartitionOptions options = planner.options(0, planner.first().partition);
  EXPECT_EQ(options.move.partition, options.stay.partition);
  EXPECT_NEAR(options.saving, 0, 1e-9);
}

TEST_F(PlannedJob, MovesLayersToTheFrozenStagesInTheOldTime) {
  const WorkPlanner planner(config_);
  const double old_time_s = plan::read_plan(planner.first().plan, "plan").time_s;
  for (const std::int64_t frozen : {2, 4, 6}) {
    const PartitionOptions options = planner.options(frozen, planner.first().partition);
    EXPECT_EQ(options.stay.partition, planner.first().partition);
    EXPECT_GT(options.move.partition.front().size(), 3);
    EXPECT_GT(options.saving, 0.02);
    expect_units(options.stay, frozen);
    expect_units(options.move, frozen);
    for (const PlannedPartition& planned : {options.stay, options.move}) {
      EXPECT_LE(plan::read_plan(planned.plan, "plan").time_s, old_time_s * (1 + 1e-9));
    }
    // And back.
    const PartitionOptions back = planner.options(0, options.move.partition);
    EXPECT_EQ(back.move.partition, planner.first().partition);
    EXPECT_EQ(back.move.plan, planner.first().plan);
    EXPECT_GT(back.saving, 0);
    expect_units(back.stay, 0);
  }
}

TEST_F(PlannedJob, AnAllowedSlowdownSavesMore) {
  const double fastest_j = plan::read_plan(WorkPlanner(config_).first().plan, "plan").energy_j;
  config_.adapt.repartition->profile->slowdown_pct = 10;
  EXPECT_LT(plan::read_plan(WorkPlanner(config_).first().plan, "plan").energy_j, fastest_j);
}

TEST_F(PlannedJob, RefusesWhatItCannotPlan) {
  config_.adapt.repartition->profile->blocking_power = "-1";
  EXPECT_THAT(error_of([&] { WorkPlanner planner(config_); }), HasSubstr("blocking_power"));
  config_.adapt.repartition->profile->blocking_power = "80";
  config_.parallel = {.pp = 2, .chunks = 2};
  config_.schedule = "interleaved";
  EXPECT_THAT(error_of([&] { WorkPlanner planner(config_); }), HasSubstr("every rank has one stage"));
  config_.parallel = {.pp = 3};
  config_.schedule = "1f1b";
  EXPECT_THAT(error_of([&] { WorkPlanner planner(config_); }), HasSubstr("stages"));
}

}  // namespace
}  // namespace lowgear::launcher
