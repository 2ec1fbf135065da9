#include "hardware/load/curve_sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "base/core/monotonic_clock.h"
#include "hardware/gpu/reading_gpu.h"

namespace lowgear::load {
namespace {

using curve::CurveLoad;
using curve::CurveSample;
using testing::HasSubstr;

constexpr double kWattsPerSm = 4;
constexpr double kIdle_w = 100;
constexpr double kOperationsPerSecond = 1e12;

/// A GPU that draws power for each multiprocessor at work, and whose counter shows it at any time.
class WorkingGpu final : public gpu::ReadingGpu {
 public:
  WorkingGpu(const std::atomic<int>& busy, bool works) : ReadingGpu("GPU-0", works), busy_(&busy) {}

  void read(gpu::GpuFeature sensor, gpu::GpuValues& values) override {
    if (sensor == gpu::GpuFeature::sm_clock) values.sm_clock_mhz = 1980;
    if (sensor == gpu::GpuFeature::memory_clock) values.memory_clock_mhz = 3201;
    if (sensor == gpu::GpuFeature::temperature) values.temperature_c = 47;
    if (sensor != gpu::GpuFeature::energy_counter) return;
    const double now_s = monotonic_s();
    energy_j_ += (kIdle_w + kWattsPerSm * *busy_) * (now_s - read_s_);
    read_s_ = now_s;
    values.energy_j = energy_j_;
  }

 private:
  const std::atomic<int>* busy_;
  double energy_j_ = 0;
  double read_s_ = monotonic_s();
};

/// A load whose work goes with time.
class FakeLoad final : public GpuLoad {
 public:
  explicit FakeLoad(std::atomic<int>& busy) : busy_(&busy) {}

  [[nodiscard]] int multiprocessors() const override { return 132; }
  [[nodiscard]] bool multiplies(curve::ProductType /*type*/) const override { return true; }
  void start(const CurveLoad& load) override {
    begin_s_ = monotonic_s();
    *busy_ = load.product_sms + load.stream_sms;
    ++starts;
  }
  [[nodiscard]] LoadWork work() const override {
    return {.operations = *busy_ * kOperationsPerSecond * (monotonic_s() - begin_s_)};
  }
  void stop() override { *busy_ = 0; }

  int starts = 0;

 private:
  std::atomic<int>* busy_;
  double begin_s_ = 0;
};

struct Machine {
  explicit Machine(bool works = true) : system(gpus(busy, works)), load(busy) {}

  static std::vector<std::unique_ptr<gpu::Gpu>> gpus(const std::atomic<int>& busy, bool works) {
    std::vector<std::unique_ptr<gpu::Gpu>> all;
    all.push_back(std::make_unique<WorkingGpu>(busy, works));
    return all;
  }
  [[nodiscard]] CurveRun run() {
    return {.system = system, .gpu = *system.gpus().front(), .load = load, .settle_s = 0, .window_s = 0.3};
  }

  std::atomic<int> busy = 0;
  gpu::ReadingSystem system;
  FakeLoad load;
};

TEST(CurveSampling, MeasuresWorkOfEveryLoad) {
  Machine machine;
  const std::vector<CurveLoad> plan = {{.product_sms = 100}, {}, {.product_sms = 20}};
  const std::vector<CurveSample> samples = sample_curve(machine.run(), plan);
  ASSERT_EQ(samples.size(), plan.size());
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const CurveSample& sample = samples[i];
    EXPECT_EQ(sample.load, plan[i]);
    EXPECT_EQ(sample.clock_mhz, 1980);
    EXPECT_EQ(sample.temperature_c, 47);
    EXPECT_EQ(sample.memory_clock_mhz, 3201);
    EXPECT_GE(sample.time_s, 0.3);
    EXPECT_GT(sample.energy_j, 0);
    // The rate does not depend on how long the window took.
    EXPECT_NEAR(sample.operations / sample.time_s, plan[i].product_sms * kOperationsPerSecond,
                0.01 * kOperationsPerSecond);
  }
  EXPECT_EQ(machine.busy, 0);
}

TEST(CurveSampling, EndsAfterASampleWhenAsked) {
  Machine machine;
  CurveRun run = machine.run();
  int samples = 0;
  run.on_sample = [&](const CurveSample&) { ++samples; };
  run.asked_to_end = [&] { return samples == 2; };
  EXPECT_EQ(sample_curve(run, std::vector<CurveLoad>(5)).size(), 2U);
  EXPECT_EQ(machine.load.starts, 2);
}

TEST(CurveSampling, NeedsCounterAndClock) {
  Machine machine(/*works=*/false);
  EXPECT_THAT([&] { (void)sample_curve(machine.run(), std::vector<CurveLoad>(1)); },
              testing::ThrowsMessage<gpu::GpuError>(HasSubstr("a curve needs its energy_counter")));
  EXPECT_EQ(machine.load.starts, 0);
}

}  // namespace
}  // namespace lowgear::load
