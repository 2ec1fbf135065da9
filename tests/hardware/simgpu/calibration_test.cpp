#include <gtest/gtest.h>

#include <iostream>
#include <optional>
#include <string>

#include "hardware/simgpu/physics.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/stage_profile.h"
#include "planning/simulator/shared_data.h"

namespace lowgear::simgpu {
namespace {

/// Power of the profile's instructions on the simulated model, against energy / time of the profile, at clocks below
/// those at which the profiled GPU met its power limit. One load for all clocks: the instructions are the same.
void expect_power_curve(std::string_view key, const std::string& profile_name, int below_mhz, double tolerance) {
  const auto text = simulator::read_shared("perseus/stage_profile/" + profile_name);
  if (!text) {
    std::cerr << simulator::kNoSharedData << '\n';
    GTEST_SKIP() << simulator::kNoSharedData;
  }
  const profile::StageProfile profile = profile::read_profile_file(*text, profile_name).profile;
  const SimulatedGpuModel& model = find_gpu_model(key);
  const double warm_c = 50;
  for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
    for (const profile::Measurement& row : profile.measurements(0, kind)) {
      if (row.clock_mhz > below_mhz) continue;
      const double measured_w = row.energy_j / row.time_s;
      const double simulated_w = working_power(model, row.clock_mhz, warm_c, {.compute = 1, .memory = 0}).total_w();
      EXPECT_NEAR(simulated_w / measured_w, 1, tolerance) << row.clock_mhz << " MHz " << name(kind);
    }
  }
}

TEST(Calibration, A100FollowsThePowerOfPerseusProfile) {
  expect_power_curve("A100", "gpt3-175b+a100_sxm_bf16.csv", 1350, 0.03);
}

TEST(Calibration, A40FollowsThePowerOfPerseusProfile) { expect_power_curve("A40", "bloom+a40_bf16.csv", 1500, 0.04); }

TEST(Calibration, WaitingTakesPerseusBlockingPower) {
  const auto waiting_w = [](std::string_view key) {
    const SimulatedGpuModel& model = find_gpu_model(key);
    return working_power(model, model.sm_clocks.max_mhz, 45, {}).total_w();
  };
  EXPECT_NEAR(waiting_w("A100"), 83.64, 1);
  EXPECT_NEAR(waiting_w("A40"), 70.38, 1);
}

TEST(Calibration, PowerWithoutWorkIsThatOfPublicListings) {
  // NVIDIA/nvidia-docker 1076: 56.6 and 57.4 W at 1290 MHz and 32 C.
  EXPECT_NEAR(working_power(find_gpu_model("V100"), 1290, 32, {}).total_w(), 57, 2);
  // mrirecon/bart 323: 29.9 W idle at 210 MHz.
  SimulatedGpuModel idle = find_gpu_model("A6000");
  idle.power.board_w = idle.power.idle_board_w;
  EXPECT_NEAR(working_power(idle, 210, 35, {}).total_w(), 29.9, 2);
}

/// What is derived of one chip: at a clock that both have, multiprocessors draw in proportion to their number.
TEST(Calibration, GpusOfOneChipShareTheirVoltageCurve) {
  for (const int clock_mhz : {900, 1170, 1455, 1740}) {
    const auto compute_w = [clock_mhz](std::string_view key) {
      const SimulatedGpuModel& model = find_gpu_model(key);
      return working_power(model, clock_mhz, 50, {.compute = 1, .memory = 0}).total_w() -
             working_power(model, clock_mhz, 50, {}).total_w();
    };
    EXPECT_NEAR(compute_w("A6000") / compute_w("A40"), 1, 0.005) << clock_mhz;
    EXPECT_NEAR(compute_w("RTX3090") / compute_w("A40"), 82.0 / 84, 0.005) << clock_mhz;
  }
}

}  // namespace
}  // namespace lowgear::simgpu
