#include "training/trainer/sampler/gpu_observer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "base/core/monotonic_clock.h"
#include "hardware/gpu/reading_gpu.h"

namespace lowgear::trainer {
namespace {

constexpr double kPower_w = 300;
constexpr int kClock_mhz = 1755;

/// A GPU that always draws the same power. Its counter goes in steps of 20 ms, as a real one's does of 100 ms.
class SteadyGpu final : public gpu::ReadingGpu {
 public:
  using ReadingGpu::ReadingGpu;

  void read(gpu::GpuFeature sensor, gpu::GpuValues& values) override {
    constexpr double kStep_s = 0.02;
    if (sensor == gpu::GpuFeature::energy_counter)
      values.energy_j = kPower_w * std::floor(monotonic_s() / kStep_s) * kStep_s;
    if (sensor == gpu::GpuFeature::instant_power) values.power_w = kPower_w;
    if (sensor == gpu::GpuFeature::sm_clock) values.sm_clock_mhz = kClock_mhz;
  }
};

gpu::ReadingSystem one_gpu(bool works) {
  std::vector<std::unique_ptr<gpu::Gpu>> gpus;
  gpus.push_back(std::make_unique<SteadyGpu>("GPU-0", works));
  return gpu::ReadingSystem(std::move(gpus));
}

/// Work of a millisecond, which counts its runs.
struct Sleeper {
  int runs = 0;
  int finished = 0;

  [[nodiscard]] RepeatedWork work() {
    return {.begin_one =
                [this] {
                  ++runs;
                  std::this_thread::sleep_for(std::chrono::milliseconds(1));
                },
            .finish = [this] { ++finished; }};
  }
};

TEST(GpuObserver, TellsEnergyOfARunFromAWindowOfMany) {
  const gpu::ReadingSystem system = one_gpu(/*works=*/true);
  GpuObserver observer(system, *system.gpus().front());
  Sleeper sleeper;
  const auto sample = observer.energy_of(sleeper.work(), 1e-3, 0.4);
  ASSERT_TRUE(sample);
  // Whatever the machine makes of a millisecond: power is energy by time.
  EXPECT_NEAR(sample->energy_j / (sample->window_us * 1e-6), kPower_w, 0.15 * kPower_w);
  EXPECT_GT(sample->error_j, 0);
  EXPECT_LT(sample->error_j, sample->energy_j);
  EXPECT_EQ(sample->clock_mhz, kClock_mhz);
  EXPECT_EQ(observer.clock_mhz(), kClock_mhz);
  EXPECT_EQ(sleeper.finished, 2);  // once it has settled, and at the end
}

TEST(GpuObserver, RunsAsOftenAsTheSlowestRank) {
  const gpu::ReadingSystem system = one_gpu(/*works=*/true);
  GpuObserver observer(system, *system.gpus().front());
  Sleeper sleeper;
  RepeatedWork work = sleeper.work();
  constexpr double kSlowest_s = 0.05;
  work.agree = [](double) { return kSlowest_s; };
  ASSERT_TRUE(observer.energy_of(work, 0.1, 0.5));
  EXPECT_EQ(sleeper.runs, 3 + 10);  // 0.3 s of runs said to take 0.1, then 0.5 s of runs agreed to take 0.05
}

TEST(GpuObserver, SaysNothingOfAGpuThatTellsNothing) {
  const gpu::ReadingSystem system = one_gpu(/*works=*/false);
  GpuObserver observer(system, *system.gpus().front());
  Sleeper sleeper;
  EXPECT_FALSE(observer.energy_of(sleeper.work(), 0.1, 0.1));
  EXPECT_FALSE(observer.clock_mhz());
}

}  // namespace
}  // namespace lowgear::trainer
