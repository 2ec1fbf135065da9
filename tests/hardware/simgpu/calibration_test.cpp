#include <gtest/gtest.h>

#include <iostream>
#include <optional>
#include <ranges>
#include <string>

#include "hardware/simgpu/physics.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/stage_profile.h"
#include "planning/simulator/shared_data.h"

namespace lowgear::simgpu {
namespace {

/// Power of the profile's instructions on the simulated model, against energy / time of the profile, at clocks below
/// those at which the profiled GPU met its power limit. The load is that of the lowest clock: the instructions are the
/// same at all.
void expect_power_curve(std::string_view key, const std::string& profile_name, int below_mhz, double tolerance) {
  const auto text = simulator::read_shared("perseus/stage_profile/" + profile_name);
  if (!text) {
    std::cerr << simulator::kNoSharedData << '\n';
    GTEST_SKIP() << simulator::kNoSharedData;
  }
  const profile::StageProfile profile = profile::read_profile_file(*text, profile_name).profile;
  const SimulatedGpuModel& model = find_gpu_model(key);
  const auto power_w = [&model](int clock_mhz, double load) {
    return working_power(model, clock_mhz, 50, {.compute = load, .memory = 0}).total_w();
  };
  for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
    std::optional<double> load;
    for (const profile::Measurement& row : std::views::reverse(profile.measurements(0, kind))) {
      if (row.clock_mhz > below_mhz) continue;
      const double measured_w = row.energy_j / row.time_s;
      const double waiting_w = power_w(row.clock_mhz, 0);
      if (!load) load = (measured_w - waiting_w) / (power_w(row.clock_mhz, 1) - waiting_w);
      EXPECT_NEAR(power_w(row.clock_mhz, *load) / measured_w, 1, tolerance) << row.clock_mhz << " MHz " << name(kind);
    }
  }
}

TEST(Calibration, A100FollowsThePowerOfPerseusProfile) {
  expect_power_curve("A100", "gpt3-175b+a100_sxm_bf16.csv", 1350, 0.05);
}

TEST(Calibration, A40FollowsThePowerOfPerseusProfile) { expect_power_curve("A40", "bloom+a40_bf16.csv", 1500, 0.05); }

TEST(Calibration, PowerWithoutWorkIsThatOfPublicListings) {
  // NVIDIA/nvidia-docker 1076: 56.6 and 57.4 W at 1290 MHz and 32 C.
  EXPECT_NEAR(working_power(find_gpu_model("V100"), 1290, 32, {}).total_w(), 57, 2);
  // mrirecon/bart 323: 29.9 W idle at 210 MHz.
  EXPECT_NEAR(find_gpu_model("A6000").power.idle_w, 29.9, 2);
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
