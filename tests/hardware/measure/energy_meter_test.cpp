#include "hardware/measure/energy_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/eventually.h"
#include "base/core/monotonic_clock.h"
#include "hardware/gpu/reading_gpu.h"

namespace lowgear::measure {
namespace {

using testing::HasSubstr;

/// A GPU that draws 310 W, and whose counter shows it at any time.
class CountingGpu final : public gpu::ReadingGpu {
 public:
  CountingGpu(std::string uuid, const std::atomic<bool>& lost) : ReadingGpu(std::move(uuid)), lost_(&lost) {}

  void read(gpu::GpuFeature sensor, gpu::GpuValues& values) override {
    if (sensor == gpu::GpuFeature::instant_power) values.power_w = 310;
    if (sensor == gpu::GpuFeature::sm_clock) values.sm_clock_mhz = 1410;
    if (sensor == gpu::GpuFeature::temperature) values.temperature_c = 50;
    if (sensor == gpu::GpuFeature::utilisation) values.gpu_utilisation_percent = 99;
    if (sensor != gpu::GpuFeature::energy_counter) return;
    if (*lost_) throw gpu::GpuError(gpu::GpuErrorCode::gpu_lost, identity().uuid + " is lost");
    values.energy_j = 310 * monotonic_s();
  }

 private:
  const std::atomic<bool>* lost_;
};

/// Their system; all are lost once `lost` is set.
gpu::ReadingSystem counting_gpus(int count, const std::atomic<bool>& lost) {
  std::vector<std::unique_ptr<gpu::Gpu>> gpus;
  for (int i = 0; i < count; ++i) gpus.push_back(std::make_unique<CountingGpu>("GPU-" + std::to_string(i), lost));
  return gpu::ReadingSystem(std::move(gpus));
}

const std::atomic<bool> kNeverLost = false;

const EnergyMeterOptions kFast{.period_s = 0.0005, .ready_timeout_s = 10};

/// Waits until the window has seen that many readings of every GPU, and energy: its error may hide that of a short one.
WindowMeasurement wait_for_readings(EnergyMeter& meter, EnergyMeter::WindowId window, int readings) {
  for (;;) {
    WindowMeasurement measurement = meter.measure(window);
    const auto is_seen = [&](const auto& gpu) { return gpu.readings >= readings && gpu.energy_j > 0.0; };
    if (std::ranges::all_of(measurement.gpus, is_seen)) {
      return measurement;
    }
    std::this_thread::yield();
  }
}

TEST(EnergyMeter, MeasuresEveryGpu) {
  const gpu::ReadingSystem system = counting_gpus(3, kNeverLost);
  EnergyMeter meter(system, {}, kFast);
  const auto window = meter.begin("work");
  const WindowMeasurement seen = wait_for_readings(meter, window, 5);
  EXPECT_EQ(seen.name, "work");
  EXPECT_TRUE(seen.simulated);
  ASSERT_EQ(seen.gpus.size(), 3U);
  for (const GpuMeasurement& gpu : seen.gpus) {
    EXPECT_EQ(gpu.source, EnergySource::counter);
    // The reading over 100 ms, not over a second; the counter, extrapolated, may show more.
    EXPECT_EQ(gpu.peak_power_w, std::max(310.0, gpu.mean_power_w.value()));
    EXPECT_EQ(gpu.max_temperature_c, 50);
    EXPECT_TRUE(gpu.problem.empty());
  }
  EXPECT_GE(meter.end(window).gpu_energy_j().value(), seen.gpu_energy_j().value());
}

TEST(EnergyMeter, MeasuresTheGpusThatWereChosen) {
  const gpu::ReadingSystem system = counting_gpus(3, kNeverLost);
  EnergyMeter meter(system, {system.gpus()[1].get()}, kFast);
  const WindowMeasurement result = meter.end(meter.begin("one"));
  ASSERT_EQ(result.gpus.size(), 1U);
  EXPECT_EQ(result.gpus[0].identity.uuid, "GPU-1");
}

TEST(EnergyMeter, WindowsOverlap) {
  const gpu::ReadingSystem system = counting_gpus(1, kNeverLost);
  EnergyMeter meter(system, {}, kFast);
  const auto outer = meter.begin("outer");
  (void)wait_for_readings(meter, outer, 3);
  const auto inner = meter.begin("inner");
  (void)wait_for_readings(meter, inner, 3);
  const WindowMeasurement inside = meter.end(inner);
  const WindowMeasurement around = meter.end(outer);
  EXPECT_LT(inside.time_s, around.time_s);
  EXPECT_LT(inside.gpus[0].readings, around.gpus[0].readings);
}

TEST(EnergyMeter, RefusesAWindowThatIsNotOpen) {
  const gpu::ReadingSystem system = counting_gpus(1, kNeverLost);
  EnergyMeter meter(system, {}, kFast);
  const auto window = meter.begin("once");
  (void)meter.end(window);
  EXPECT_THROW((void)meter.end(window), InputError);
  EXPECT_THROW((void)meter.measure(77), InputError);
}

TEST(EnergyMeter, ContinuesWhenAGpuIsLost) {
  std::atomic<bool> lost = false;
  const gpu::ReadingSystem system = counting_gpus(2, lost);
  EnergyMeter meter(system, {}, kFast);
  const auto window = meter.begin("broken");
  (void)wait_for_readings(meter, window, 3);
  lost = true;
  WindowMeasurement result;
  EXPECT_TRUE(eventually([&] {
    result = meter.measure(window);
    return result.gpus[0].source == EnergySource::integrated_power;
  })) << "a stale counter is no measurement";
  EXPECT_THAT(result.gpus[0].problem, HasSubstr("GPU-0 is lost"));
}

TEST(EnergyMeter, MeasuresTimeWhereThereAreNoGpus) {
  const gpu::ReadingSystem system = counting_gpus(0, kNeverLost);
  EnergyMeter meter(system, {}, kFast);
  const WindowMeasurement result = meter.end(meter.begin("cpu only"));
  EXPECT_TRUE(result.gpus.empty());
  EXPECT_FALSE(result.gpu_energy_j());
  EXPECT_GE(result.time_s, 0);
}

}  // namespace
}  // namespace lowgear::measure
