#include "agent/telemetry.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "gpu/fake_gpu.h"

namespace lowgear {
namespace {

TEST(ReadGpu, ReadsAllThatTheGpuReports) {
  FakeGpu gpu;
  gpu.change([](FakeReadings& now) {
    now = {.energy_j = 12.5,
           .average_power_w = 300,
           .instant_power_w = 310,
           .sm_clock_mhz = 1500,
           .memory_clock_mhz = 2619,
           .temperature_c = 61,
           .throttle_reasons = {.bits = 4},
           .utilisation = {.gpu_percent = 97, .memory_percent = 43}};
  });
  const GpuReading reading = read_gpu(gpu);
  EXPECT_EQ(reading.energy_j, 12.5);
  EXPECT_EQ(reading.power_w, 310);
  EXPECT_EQ(reading.sm_clock_mhz, 1500);
  EXPECT_EQ(reading.memory_clock_mhz, 2619);
  EXPECT_EQ(reading.temperature_c, 61);
  EXPECT_TRUE(reading.throttle_reasons.value().power_cap());
  EXPECT_EQ(reading.gpu_utilisation_percent, 97);
  EXPECT_EQ(reading.memory_utilisation_percent, 43);
}

TEST(ReadGpu, LeavesEmptyWhatTheGpuDoesNotReport) {
  FakeGpu gpu;
  gpu.disable(GpuFeature::instant_power, GpuErrorCode::not_supported, "too old");
  gpu.disable(GpuFeature::energy_counter, GpuErrorCode::not_supported, "too old");
  gpu.change([](FakeReadings& now) { now.average_power_w = 123; });
  gpu.fail("temperature_c", GpuErrorCode::gpu_lost, -1);
  const GpuReading reading = read_gpu(gpu);
  EXPECT_GT(reading.time_ns, 0);
  EXPECT_FALSE(reading.energy_j);
  EXPECT_EQ(reading.power_w, 123);
  EXPECT_FALSE(reading.temperature_c);
  EXPECT_EQ(reading.sm_clock_mhz, 1980);
}

TEST(Telemetry, SamplesEveryGpu) {
  constexpr auto kLimit = std::chrono::seconds(20);
  const auto system = std::make_shared<FakeGpuSystem>(2);
  system->fake(1).change([](FakeReadings& now) { now.temperature_c = 55; });
  const Telemetry telemetry(system, 1000);
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  while (telemetry.reading(1).temperature_c != 55 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(telemetry.reading(1).temperature_c, 55);
  system->fake(1).change([](FakeReadings& now) { now.temperature_c = 60; });
  while (telemetry.reading(1).temperature_c != 60 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(telemetry.reading(1).temperature_c, 60);
}

}  // namespace
}  // namespace lowgear
