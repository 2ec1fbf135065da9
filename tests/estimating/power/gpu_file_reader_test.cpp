#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"
#include "estimating/power/gpu_file.h"

namespace lowgear::power {
namespace {

using testing::HasSubstr;

/// 100 multiprocessors at 1 GHz: 400 W of bf16 and 480 W of fp8 products, 160 W of memory at 2 TB/s.
constexpr const char* kFile = R"({"format": "lowgear.gpu/1", "gpu": "NVIDIA H200", "driver": "580.159.04",
 "date": "2026-11-29", "simulated": false, "limit_w": 700, "max_clock_mhz": 1000, "multiprocessors": 100,
 "static_w": {"value": 118, "error": 0.9, "temperature_c": 35, "per_k": 0.4, "clock_tree": 34},
 "operations": [{"type": "bf16", "pj": 1, "error": 0.006, "ops_per_cycle_sm": 4000},
                {"type": "fp8", "pj": 0.6, "ops_per_cycle_sm": 8000}],
 "memory": {"pj_per_byte": 100, "error": 2, "clock_share": 0.25},
 "voltage": {"measured_from_mhz": 600,
             "points": [{"clock_mhz": 300, "relative_v2": 0.3, "error": 0.08}, {"clock_mhz": 600, "relative_v2": 0.5},
                        {"clock_mhz": 1000, "relative_v2": 1}]}})";

std::string with(const std::string& from, const std::string& to) {
  std::string text = kFile;
  return text.replace(text.find(from), from.size(), to);
}

TEST(GpuFile, IsRead) {
  const GpuFile file = parse_gpu_file(kFile, "h200.json");
  EXPECT_EQ(file.gpu, "NVIDIA H200");
  EXPECT_EQ(file.static_power.at_reference_w.value, 118);
  EXPECT_EQ(file.static_power.at_reference_w.error, 0.9);
  ASSERT_EQ(file.operations.size(), 2U);
  EXPECT_EQ(file.operations[1].type, "fp8");
  EXPECT_DOUBLE_EQ(file.voltage.relative_v2(800), 0.75);
  EXPECT_EQ(describe(file), "measured on one NVIDIA H200, 2026-11-29, from 600 MHz up, extrapolated to 300 MHz");
}

TEST(GpuFile, ReplacesThePowerOfAModel) {
  GpuPower power{.idle_w = 200,
                 .static_w = 100,
                 .blocking_w = 102,
                 .compute_w = 1200,
                 .attention_share = 0.5,
                 .memory_w = 1,
                 .memory_sm_w = 1,
                 .limit_w = 700};
  replace(power, parse_gpu_file(kFile, "h200.json"), 1000, 2e12);
  EXPECT_DOUBLE_EQ(power.static_w, 118 + 0.4 * 5);
  EXPECT_DOUBLE_EQ(power.blocking_w, 122);
  EXPECT_DOUBLE_EQ(power.idle_w, 120) << "not above that of an awake GPU";
  EXPECT_DOUBLE_EQ(power.clock_tree_w, 34);
  EXPECT_NEAR(power.memory_w, 120, 1e-9);
  EXPECT_NEAR(power.memory_sm_w, 40, 1e-9);
  EXPECT_EQ(power.limit_w, 700);
  EXPECT_EQ(power.voltage_basis, Basis::measured);
  // Under 700 W products run at 500 MHz by the old curve; V^2 is 0.4333 there by the new one, for 0.87 of their energy.
  const double rate = 0.5 * (0.13 + 0.87 * (0.3 + 0.2 * 200 / 300));
  EXPECT_NEAR(power.static_power_w(rate) + power.compute_w * rate, 700, 0.01);
  EXPECT_NEAR(power.attention_share * power.compute_w, 700 - 120, 0.01) << "at the highest clock";
}

TEST(GpuFile, WithEnergyOfTheCacheShowsTheShareThatFollowsTheVoltage) {
  GpuPower power{.static_w = 100, .compute_w = 1200, .limit_w = 700};
  const std::string text =
      with(" \"voltage\"", " \"cache\": {\"pj_per_byte\": 64, \"clock_share\": 0.5},\n \"voltage\"");
  replace(power, parse_gpu_file(text, "h200.json"), 1000, 2e12);
  // An operation of 1 pJ reads 1/128 bytes of the cache and 3/8192 of memory.
  const double off_core = (32.0 / 128 + 75.0 * 3 / 8192) / (1 + 64.0 / 128 + 100.0 * 3 / 8192);
  EXPECT_NEAR(power.voltage.relative_v2(600), off_core + (1 - off_core) * 0.5, 1e-9);
}

TEST(GpuFile, WithALossInDeliverySavesMoreAtLowClocks) {
  GpuPower power{.static_w = 100, .compute_w = 1250, .limit_w = 700};
  const std::string text = with(" \"voltage\"", " \"delivery\": {\"loss_per_kw\": 0.25},\n \"voltage\"");
  replace(power, parse_gpu_file(text, "h200.json"), 1000, 2e12);
  // Of 1250 W 1000 W are delivered, and 250 W lost.
  const double energy = 0.13 + 0.87 * 0.5;
  EXPECT_NEAR(power.voltage.relative_v2(600), energy * (1 + 0.25 * 0.6 * energy) / 1.25, 1e-9);
  EXPECT_DOUBLE_EQ(power.voltage.relative_v2(1000), 1);
}

TEST(GpuFile, OfAnotherHighestClockOrPowerIsRefused) {
  GpuPower power{.static_w = 50, .compute_w = 40, .limit_w = 100};
  EXPECT_THAT(error_of([&] { replace(power, parse_gpu_file(kFile, "h200.json"), 1000, 2e12); }),
              HasSubstr("static power of 118 W leaves none for work under the limit of 100 W"));
  EXPECT_THAT(error_of([&] { replace(power, parse_gpu_file(kFile, "h200.json"), 1980, 2e12); }),
              HasSubstr("highest clock is 1000 MHz, that of this GPU 1980 MHz"));
}

TEST(GpuFile, NamesWhatIsWrong) {
  const auto error = [](const std::string& text) { return error_of([&] { (void)parse_gpu_file(text, "g.json"); }); };
  EXPECT_THAT(error(with("gpu/1", "gpu/2")), HasSubstr("lowgear.gpu/1"));
  EXPECT_THAT(error(with("\"limit_w\"", "\"limit\"")), HasSubstr("there is no member \"limit\""));
  EXPECT_THAT(error(with("\"fp8\"", "\"int8\"")), HasSubstr("operations[1].type: unknown type \"int8\""));
  EXPECT_THAT(error(with("\"relative_v2\": 0.5", "\"relative_v2\": 0.2")), HasSubstr("relative_v2 of 0.2 at 600 MHz"));
  EXPECT_THAT(error(with("\"clock_tree\": 34", "\"clock_tree\": 340")), HasSubstr("static_w.clock_tree"));
  EXPECT_THAT(error(with("\"max_clock_mhz\": 1000", "\"max_clock_mhz\": 900")), HasSubstr("the last point of voltage"));
}

}  // namespace
}  // namespace lowgear::power
