#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "hardware/simgpu/physics.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/stage_profile.h"
#include "planning/simulator/shared_data.h"

namespace lowgear::simgpu {
namespace {

/// Power of the profile's instructions on the simulated model, against energy / time of the profile, at clocks below
/// those at which the profiled GPU met its power limit. The part of the time that follows the clock is computation, the
/// rest memory; the load of the computation is that of the lowest clock, as the instructions are the same at all.
void expect_power_curve(std::string_view key, const std::string& profile_name, OpKind kind, int below_mhz,
                        double tolerance) {
  const auto text = simulator::read_shared("perseus/stage_profile/" + profile_name);
  if (!text) {
    std::cerr << simulator::kNoSharedData << '\n';
    GTEST_SKIP() << simulator::kNoSharedData;
  }
  const profile::StageProfile profile = profile::read_profile_file(*text, profile_name).profile;
  const SimulatedGpuModel& model = find_gpu_model(key);
  std::vector<profile::Measurement> rows;
  std::ranges::copy_if(profile.measurements(0, kind), std::back_inserter(rows),
                       [below_mhz](const profile::Measurement& row) { return row.clock_mhz <= below_mhz; });
  const double top_mhz = model.sm_clocks.max_mhz;
  const profile::Measurement& slow = rows.back();
  const profile::Measurement& fast = rows.front();
  const double core_s = (slow.time_s - fast.time_s) / (top_mhz / slow.clock_mhz - top_mhz / fast.clock_mhz);
  const auto power_w = [&](const profile::Measurement& row, double load) {
    const double compute = core_s * top_mhz / row.clock_mhz / row.time_s;
    return working_power(model, row.clock_mhz, 50, {.compute = load * compute, .memory = 1 - compute}).total_w();
  };
  const double without_w = power_w(slow, 0);
  const double load = (slow.energy_j / slow.time_s - without_w) / (power_w(slow, 1) - without_w);
  EXPECT_NEAR(load, 1, 0.25);
  for (const profile::Measurement& row : rows) {
    EXPECT_NEAR(power_w(row, load) / (row.energy_j / row.time_s), 1, tolerance) << row.clock_mhz << " MHz";
  }
}

TEST(Calibration, A100FollowsThePowerOfPerseusProfile) {
  for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
    expect_power_curve("A100", "gpt3-175b+a100_sxm_bf16.csv", kind, 1350, 0.06);
  }
}

/// Not the forward: its time hardly follows the clock, and its power does, which the model has no work for.
TEST(Calibration, A40FollowsThePowerOfPerseusProfile) {
  expect_power_curve("A40", "bloom+a40_bf16.csv", OpKind::backward, 1500, 0.1);
}

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
