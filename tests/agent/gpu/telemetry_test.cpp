#include "agent/gpu/telemetry.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "base/core/eventually.h"
#include "base/core/monotonic_clock.h"
#include "hardware/gpu/fake_gpu.h"

namespace lowgear::agent {
namespace {

using namespace std::chrono_literals;

TEST(ReadGpu, ReadsAllThatTheGpuReports) {
  gpu::FakeGpu gpu;
  gpu.change([](gpu::FakeReadings& now) {
    now.energy_j = 12.5;
    now.average_power_w = 300;
    now.power_w = 310;
    now.sm_clock_mhz = 1500;
    now.memory_clock_mhz = 2619;
    now.temperature_c = 61;
    now.throttle_reasons = gpu::ThrottleReasons{.bits = 4};
    now.gpu_utilisation_percent = 97;
    now.memory_utilisation_percent = 43;
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
  gpu::FakeGpu gpu;
  gpu.disable(gpu::GpuFeature::instant_power, gpu::GpuErrorCode::not_supported, "too old");
  gpu.disable(gpu::GpuFeature::energy_counter, gpu::GpuErrorCode::not_supported, "too old");
  gpu.change([](gpu::FakeReadings& now) { now.average_power_w = 123; });
  gpu.fail("temperature", gpu::GpuErrorCode::gpu_lost, -1);
  const GpuReading reading = read_gpu(gpu);
  EXPECT_GT(reading.time_ns, 0);
  EXPECT_FALSE(reading.energy_j);
  EXPECT_EQ(reading.power_w, 123);
  EXPECT_FALSE(reading.temperature_c);
  EXPECT_EQ(reading.sm_clock_mhz, 1980);
}

/// Samples a GPU of 300 W every 50 ms until `end_s`; `spoil` changes them.
std::optional<double> follow(EnergyCounter& counter, double begin_s, double end_s,
                             const std::function<void(measure::GpuSample&)>& spoil) {
  std::optional<double> energy_j;
  for (double time_s = begin_s; time_s < end_s; time_s += 0.05) {
    measure::GpuSample sample;
    sample.time_s = sample.counter_time_s = time_s;
    sample.energy_j = 1000 + 300 * time_s;
    sample.power_w = 300;
    spoil(sample);
    energy_j = counter.add(sample);
  }
  return energy_j;
}

TEST(EnergyCounter, LeavesOutAJumpAndCountsIt) {
  gpu::FakeGpu gpu;
  EnergyCounter counter(gpu);
  const std::optional<double> energy_j = follow(counter, 0, 10, [](measure::GpuSample& sample) {
    if (sample.time_s > 5) *sample.energy_j += 1e6;
  });
  EXPECT_NEAR(energy_j.value(), 4000, 40);
  EXPECT_TRUE(counter.status().works);
  EXPECT_EQ(counter.status().set_aside.at(static_cast<std::size_t>(EnergyFault::too_high)), 1);
  EXPECT_NE(counter.status().newest_set_aside.find("at most 1400 W"), std::string::npos)
      << counter.status().newest_set_aside;
}

TEST(EnergyCounter, PublishesNothingOfACounterThatDoesNotWork) {
  gpu::FakeGpu gpu;
  EnergyCounter counter(gpu);
  EXPECT_FALSE(follow(counter, 0, 5, [](measure::GpuSample& sample) { sample.energy_j = 1000; }));
  EXPECT_FALSE(counter.status().works);
  EXPECT_NE(counter.status().problem.find("shows no energy"), std::string::npos) << counter.status().problem;
  const std::optional<double> energy_j =
      follow(counter, 5, 10, [](measure::GpuSample& sample) { *sample.energy_j -= 300 * 5; });
  EXPECT_TRUE(counter.status().works);
  EXPECT_NEAR(energy_j.value(), 4000, 100) << "with what it had lost";

  EnergyCounter other(gpu);
  EXPECT_FALSE(follow(other, 0, 10, [](measure::GpuSample& sample) { *sample.energy_j *= 0.57; }));
  EXPECT_FALSE(other.status().works);
}

TEST(EnergyCounter, IsAbsentWhereTheGpuHasNone) {
  gpu::FakeGpu gpu;
  gpu.disable(gpu::GpuFeature::energy_counter, gpu::GpuErrorCode::not_supported, "too old");
  EnergyCounter counter(gpu);
  EXPECT_FALSE(follow(counter, 0, 5, [](measure::GpuSample& sample) { sample.energy_j.reset(); }));
  EXPECT_FALSE(counter.status().present);
  EXPECT_EQ(counter.status().problem, "too old");
}

TEST(Telemetry, KnowsACounterThatStandsStill) {
  const auto system = std::make_shared<gpu::FakeGpuSystem>(1);  // its counter never moves
  const Telemetry telemetry(system, 100, 1h);
  EXPECT_TRUE(eventually([&] { return !telemetry.energy_counter(0).works; }));
  EXPECT_TRUE(telemetry.energy_counter(0).present);
  EXPECT_TRUE(eventually([&] { return !telemetry.reading(0).energy_j; }));
}

TEST(ReadSettings, SaysSinceWhenTheyHold) {
  gpu::FakeGpu gpu;
  const std::int64_t before_ns = monotonic_ns();
  const std::int64_t asked_ns = read_settings(gpu).asked_ns;
  EXPECT_GE(asked_ns, before_ns);
  EXPECT_LE(asked_ns, monotonic_ns());
}

TEST(ReadSettings, LeavesEmptyWhatTheGpuDoesNotSay) {
  gpu::FakeGpu gpu;
  EXPECT_EQ(read_settings(gpu).power_limits.value().max_w, 700);
  EXPECT_EQ(read_settings(gpu).persistence_mode, true);
  gpu.disable(gpu::GpuFeature::power_limits, gpu::GpuErrorCode::not_supported, "too old");
  gpu.fail("persistence_mode", gpu::GpuErrorCode::gpu_lost, -1);
  EXPECT_FALSE(read_settings(gpu).power_limits);
  EXPECT_FALSE(read_settings(gpu).persistence_mode);
}

TEST(Telemetry, SamplesEveryGpu) {
  const auto system = std::make_shared<gpu::FakeGpuSystem>(2);
  system->fake(1).change([](gpu::FakeReadings& now) { now.temperature_c = 55; });
  const Telemetry telemetry(system, 1000, 1h);
  EXPECT_TRUE(eventually([&] { return telemetry.reading(1).temperature_c == 55; }));
  system->fake(1).change([](gpu::FakeReadings& now) { now.temperature_c = 60; });
  EXPECT_TRUE(eventually([&] { return telemetry.reading(1).temperature_c == 60; }));
}

TEST(Telemetry, ReadsSettingsAgainAfterAWhile) {
  const auto system = std::make_shared<gpu::FakeGpuSystem>(2);
  const Telemetry telemetry(system, 1e-3, 1ms);
  EXPECT_TRUE(eventually([&] { return telemetry.settings(1).persistence_mode == true; }));
  gpu::FakeGpuControl control(system->fake(1));
  control.apply(gpu::SetPowerLimit{450});
  control.apply(gpu::SetPersistenceMode{false});
  EXPECT_TRUE(eventually([&] {
    const GpuSettings settings = telemetry.settings(1);
    return settings.power_limits.value().current_w == 450 && settings.persistence_mode == false;
  }));
  ASSERT_TRUE(eventually([&] { return telemetry.settings(0).power_limits.has_value(); }));
  EXPECT_EQ(telemetry.settings(0).power_limits.value().current_w, 700);
}

TEST(Telemetry, ReadsSettingsAtOnceWhenToldThatTheyChanged) {
  const auto system = std::make_shared<gpu::FakeGpuSystem>(1);
  Telemetry telemetry(system, 1e-3, 1h);
  EXPECT_TRUE(eventually([&] { return telemetry.settings(0).persistence_mode == true; }));
  gpu::FakeGpuControl(system->fake(0)).apply(gpu::SetPersistenceMode{false});
  telemetry.settings_changed(0);
  EXPECT_TRUE(eventually([&] { return telemetry.settings(0).persistence_mode == false; }));
}

}  // namespace
}  // namespace lowgear::agent
