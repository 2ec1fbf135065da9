#include "hardware/simgpu/gpu_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "estimating/power/gpu_file.h"
#include "hardware/simgpu/simulated_machine.h"

namespace lowgear::simgpu {
namespace {

using testing::HasSubstr;

TEST(SimulatedGpuModel, EveryModelPassesItsOwnCheck) {
  ASSERT_EQ(gpu_models().size(), 7U);
  for (const SimulatedGpuModel& model : gpu_models()) EXPECT_NO_THROW(check(model)) << model.key.view();
}

TEST(SimulatedGpuModel, ClocksAreThoseOfTheHardware) {
  const auto clocks = [](std::string_view key) { return find_gpu_model(key).sm_clocks; };
  EXPECT_EQ(clocks("A100").count(), 81);
  EXPECT_EQ(clocks("A40").max_mhz, 1740);
  EXPECT_EQ(clocks("H100").count(), 110);  // as NVML lists them
  EXPECT_EQ(clocks("H200").min_mhz, 345);
  for (const SimulatedGpuModel& model : gpu_models()) EXPECT_EQ(model.sm_clocks.step_mhz, 15) << model.key.view();
}

/// EnvPipe locks to multiples of 90 MHz within its constants for each GPU.
TEST(SimulatedGpuModel, EnvPipesClocksAreAmongThose) {
  const auto expect_all = [](std::string_view key, int high_mhz, int low_mhz) {
    for (int clock_mhz = high_mhz; clock_mhz >= low_mhz; clock_mhz -= 90) {
      EXPECT_TRUE(find_gpu_model(key).sm_clocks.contains(clock_mhz)) << key << ' ' << clock_mhz;
    }
  };
  expect_all("V100", 1530, 810);
  expect_all("RTX3090", 1980, 1170);
  expect_all("A6000", 1890, 1710);
  expect_all("A100", 1350, 810);
}

TEST(SimulatedGpuModel, IsFoundInAnyCase) {
  EXPECT_EQ(find_gpu_model("h100").name.view(), "NVIDIA H100 80GB HBM3");
  EXPECT_THAT(error_of([] { (void)find_gpu_model("H1000"); }), HasSubstr("\"H1000\"; choose one of A40, A100, H100"));
  EXPECT_THAT(error_of([] { (void)find_gpu_model(""); }), HasSubstr("choose one of"));
}

TEST(ClockRange, RoundsToItsSteps) {
  const ClockRange clocks{.min_mhz = 345, .max_mhz = 1980, .step_mhz = 15};
  EXPECT_EQ(clocks.at_or_below(1000), 990);
  EXPECT_EQ(clocks.at_or_above(1000), 1005);
  EXPECT_EQ(clocks.at_or_below(990), 990);
  EXPECT_EQ(clocks.at_or_above(990), 990);
  EXPECT_EQ(clocks.at_or_below(1), 345);
  EXPECT_EQ(clocks.at_or_above(99999), 1980);
  EXPECT_FALSE(clocks.contains(1000));
  EXPECT_FALSE(clocks.contains(330));
}

TEST(FixedText, CutsAndEnds) {
  EXPECT_EQ(FixedText<4>("abcdef").view(), "abc");
  EXPECT_EQ(FixedText<4>("").view(), "");
  EXPECT_TRUE(FixedText<4>().empty());
}

TEST(SimulatedGpuModel, CheckNamesWhatIsWrong) {
  const std::vector<std::pair<std::function<void(SimulatedGpuModel&)>, std::string>> cases = {
      {[](SimulatedGpuModel& model) { model.sm_clocks.step_mhz = 0; }, "make no range"},
      {[](SimulatedGpuModel& model) { model.sm_clocks.max_mhz = 1981; }, "not a whole number of steps"},
      {[](SimulatedGpuModel& model) { model.memory_clocks_mhz = {}; }, "memory clocks"},
      {[](SimulatedGpuModel& model) {
         model.memory_clocks_mhz = {1593, 2619};
       },
       "memory clocks"},
      {[](SimulatedGpuModel& model) { model.idle_memory_clock_mhz = 1; }, "idle memory clock"},
      {[](SimulatedGpuModel& model) { model.power.compute_w = -1; }, "a power"},
      {[](SimulatedGpuModel& model) { model.power.static_w = std::numeric_limits<double>::quiet_NaN(); }, "a power"},
      {[](SimulatedGpuModel& model) { model.power.clock_tree_w = 130; }, "clock tree"},
      {[](SimulatedGpuModel& model) { model.power_limit_min_w = 800; }, "power limits"},
      {[](SimulatedGpuModel& model) { model.sensors.power_period_s = 0.0512; }, "whole multiple of 5 ms"},
      {[](SimulatedGpuModel& model) { model.sensors.power_sample_s = 0.2; }, "longer than its period"},
      {[](SimulatedGpuModel& model) { model.sensors.average_window_s = 100; }, "window"},
      {[](SimulatedGpuModel& model) { model.thermal.die_time_constant_s = 0; }, "time constant"},
      {[](SimulatedGpuModel& model) { model.switching.transition_median_s = 1e9; }, "switch latency"},
      {[](SimulatedGpuModel& model) { model.key = ""; }, "no key"},
  };
  for (const auto& [spoil, what] : cases) {
    SimulatedGpuModel model = find_gpu_model("H100");
    spoil(model);
    EXPECT_THAT(error_of([&] { check(model); }), HasSubstr(what));
  }
}

TEST(SimulatedGpuModel, TakesThePowerOfAMeasuredGpu) {
  power::GpuFile file;
  file.gpu = "NVIDIA H200";
  file.max_clock_mhz = 1980;
  file.static_power.at_reference_w.value = 111;
  file.byte_pj.value = 100;
  file.voltage = power::VoltageCurve(std::vector<power::VoltagePoint>{{1000, 0.4}, {1980, 1}}, 1000);
  std::vector<SimulatedGpuModel> models{find_gpu_model("H100"), find_gpu_model("H200")};
  set_power(models, file);
  EXPECT_EQ(models[1].power.static_w, 111);
  EXPECT_DOUBLE_EQ(models[1].power.voltage.relative_v2(1000), 0.13 + 0.87 * 0.4);
  // 4.9 TB/s by clock and bus, of which kernels reach 0.8.
  EXPECT_NEAR(models[1].power.memory_w, 100e-12 * 0.8 * 2 * 3201e6 * 6144 / 8, 1e-9);
  EXPECT_EQ(models[0].power.static_w, find_gpu_model("H100").power.static_w) << "of another model";
  EXPECT_NO_THROW(check(models[1]));
  file.gpu = "NVIDIA A100";
  EXPECT_THAT(error_of([&] { set_power(models, file); }), HasSubstr("measured on \"NVIDIA A100\""));
}

TEST(GpuModelsFromText, ReadsCountsAndLists) {
  const auto keys = [](std::string_view text) {
    std::vector<std::string> found;
    for (const SimulatedGpuModel& model : gpu_models_from_text(text)) found.emplace_back(model.key.view());
    return found;
  };
  EXPECT_THAT(keys("2xH100"), testing::ElementsAre("H100", "H100"));
  EXPECT_THAT(keys("a100,H200"), testing::ElementsAre("A100", "H200"));
  EXPECT_THAT(keys("2xA40,H100"), testing::ElementsAre("A40", "A40", "H100"));
}

TEST(GpuModelsFromText, RefusesOthers) {
  for (const char* const text : {"", ",", "2x", "xH100", "0xH100", "65xH100", "64xH100,A40", "-1xH100", "H100,",
                                 "99999999999999999999xH100", "2 xH100", "H100;H100"}) {
    EXPECT_THROW((void)gpu_models_from_text(text), InputError) << text;
  }
}

}  // namespace
}  // namespace lowgear::simgpu
