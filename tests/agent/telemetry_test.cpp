#include "agent/telemetry.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "gpu/fake_gpu.h"

namespace lowgear {
namespace {

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
