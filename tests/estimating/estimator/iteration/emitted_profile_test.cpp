#include "estimating/estimator/iteration/emitted_profile.h"

#include <gtest/gtest.h>

#include "estimating/estimator/power/power_model.h"

namespace lowgear::estimator {
namespace {

IterationEstimate two_stages() {
  IterationEstimate estimate;
  estimate.stages.resize(2);
  for (StageEstimate& stage : estimate.stages) {
    stage.forward = {.core_s = 0.04, .memory_s = 0.01, .link_s = 0.005, .flops = 8e12, .memory_bytes = 1e10};
    stage.backward = 2 * stage.forward;
    stage.weight_gradient = {.core_s = 0.04, .flops = 8e12, .memory_bytes = 5e9};
  }
  estimate.stages[1].forward.core_s = 0.05;
  return estimate;
}

TEST(ProfiledClocks, AreAllStepsDownToAThird) {
  const std::vector<int> clocks_mhz = profiled_clocks_mhz({210, 1410, 15});
  EXPECT_EQ(clocks_mhz.front(), 1410);
  EXPECT_EQ(clocks_mhz[1], 1395);
  EXPECT_EQ(clocks_mhz.back(), 480);
  EXPECT_EQ(profiled_clocks_mhz({900, 1000, 30}), (std::vector<int>{1000, 970, 940, 910}));
}

TEST(EmittedProfile, HasEveryOpAtEveryClock) {
  const GpuModel gpu = named_gpu("a100");
  const profile::StageProfile profile = emitted_profile(gpu, two_stages());
  ASSERT_EQ(profile.stages(), 2);
  for (int stage = 0; stage < 2; ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward, OpKind::input_gradient, OpKind::weight_gradient}) {
      EXPECT_EQ(profile.measurements(stage, kind).size(), profiled_clocks_mhz(gpu.clocks).size());
    }
  }
}

TEST(EmittedProfile, SaysWhatTheEstimateSaysAtFullClocksAndThePowerModelBelow) {
  const GpuModel gpu = named_gpu("a100");
  const IterationEstimate estimate = two_stages();
  const profile::StageProfile profile = emitted_profile(gpu, estimate);
  EXPECT_NEAR(profile.at_max_clock(1, OpKind::forward).time_s, 0.065, 1e-12);
  EXPECT_NEAR(profile.at_max_clock(0, OpKind::backward).time_s, 0.11, 1e-12);
  const TimedEnergy slower = WorkEnergy(gpu, estimate.stages[0].backward).at_clock(1050);
  EXPECT_DOUBLE_EQ(profile.at_clock(0, OpKind::backward, 1050).time_s, slower.time_s);
  EXPECT_DOUBLE_EQ(profile.at_clock(0, OpKind::backward, 1050).energy_j, slower.energy_j);
}

TEST(EmittedProfile, SplitsTheBackwardIntoItsGradients) {
  const GpuModel gpu = named_gpu("a100");
  const profile::StageProfile profile = emitted_profile(gpu, two_stages());
  for (const int clock_mhz : {1410, 1200, 900}) {
    EXPECT_NEAR(profile.at_clock(0, OpKind::input_gradient, clock_mhz).time_s +
                    profile.at_clock(0, OpKind::weight_gradient, clock_mhz).time_s,
                profile.at_clock(0, OpKind::backward, clock_mhz).time_s, 1e-12);
    EXPECT_NEAR(profile.at_clock(0, OpKind::input_gradient, clock_mhz).energy_j +
                    profile.at_clock(0, OpKind::weight_gradient, clock_mhz).energy_j,
                profile.at_clock(0, OpKind::backward, clock_mhz).energy_j, 1e-9);
  }
}

TEST(EmittedProfile, HasNoGradientsApartWhereTheEstimateHasNone) {
  IterationEstimate estimate = two_stages();
  for (StageEstimate& stage : estimate.stages) stage.weight_gradient = {};
  const profile::StageProfile profile = emitted_profile(named_gpu("a100"), estimate);
  EXPECT_FALSE(profile.has(0, OpKind::weight_gradient));
  EXPECT_TRUE(profile.has(0, OpKind::backward));
}

TEST(EmittedProfile, CanBeReadBackAsAStageProfile) {
  const profile::StageProfile profile = emitted_profile(named_gpu("h100"), two_stages());
  const std::string text = write_stage_profile(profile);
  EXPECT_EQ(profile::write_stage_profile(profile::read_stage_profile(text, "emitted.csv")), text);
}

}  // namespace
}  // namespace lowgear::estimator
