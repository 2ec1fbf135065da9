#include "hardware/simgpu/physics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <vector>

namespace lowgear::simgpu {
namespace {

constexpr std::int64_t kMillisecondNs = 1'000'000;

std::int64_t to_ns(double time_s) { return std::llround(time_s * 1e9); }

/// A GPU and its physics, in its own time.
class Bench {
 public:
  explicit Bench(const SimulatedGpuModel& gpu_model, std::uint64_t seed = 1)
      : model(gpu_model), state(idle_gpu(model, seed)), physics(model, state) {}
  explicit Bench(std::string_view key) : Bench(find_gpu_model(key)) {}
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void pass(double time_s) { physics.advance_to(state.time_ns + to_ns(time_s)); }
  /// Mean power over the time that passes.
  double mean_power_w(double time_s) {
    const double before_j = physics.energy_j();
    pass(time_s);
    return (physics.energy_j() - before_j) / time_s;
  }
  /// With a context, at its working clock.
  Bench& awake() {
    physics.set_contexts(1);
    pass(0.5);
    return *this;
  }
  void start_matmul(double load = 1) { physics.start_kernel(80'000, 0, {.compute = load, .memory = 0}); }
  void start_copy(double load = 1) { physics.start_kernel(0, 80'000, {.compute = 0, .memory = load}); }

  SimulatedGpuModel model;
  GpuPhysicsState state;
  GpuPhysics physics;
};

SimulatedGpuModel without_latency(std::string_view key) {
  SimulatedGpuModel model = find_gpu_model(key);
  model.switching = {};
  return model;
}

// What was traced on a real H100 (gpu_model.cpp says how).

TEST(TracedH100, IdleWithoutAndWithAContext) {
  Bench gpu("H100");
  EXPECT_NEAR(gpu.mean_power_w(10), 68.4, 0.5);
  EXPECT_NEAR(gpu.physics.die_c(), 30, 1);
  EXPECT_EQ(gpu.state.sm_clock_mhz, 345);
  EXPECT_EQ(gpu.physics.throttle_reasons(), kReasonIdle);
  gpu.awake();
  EXPECT_EQ(gpu.state.sm_clock_mhz, 1980);
  EXPECT_EQ(gpu.physics.throttle_reasons(), 0U);
  EXPECT_NEAR(gpu.mean_power_w(4), 113.5, 1);
  EXPECT_NEAR(gpu.state.average_power_w, 113.9, 1);
}

TEST(TracedH100, MatmulIsHeldByThePowerLimit) {
  Bench gpu("H100");
  gpu.awake().pass(4);
  gpu.start_matmul();
  gpu.pass(0.2);
  EXPECT_NEAR(gpu.physics.die_c(), 45, 3);  // a jump of 13 K
  gpu.pass(2);
  int low_mhz = 9999;
  int high_mhz = 0;
  for (int i = 0; i < 2000; ++i) {
    gpu.pass(0.01);
    low_mhz = std::min(low_mhz, gpu.state.sm_clock_mhz);
    high_mhz = std::max(high_mhz, gpu.state.sm_clock_mhz);
  }
  EXPECT_GE(low_mhz, 1275);
  EXPECT_LE(high_mhz, 1440);
  EXPECT_NEAR(gpu.mean_power_w(2), 698, 7);
  EXPECT_NEAR(gpu.physics.die_c(), 57, 2);
  EXPECT_EQ(gpu.physics.throttle_reasons(), kReasonSoftwarePowerCap);
  EXPECT_EQ(gpu.state.gpu_utilisation_percent, 100);

  gpu.physics.stop_kernel();
  gpu.pass(0.3);
  EXPECT_EQ(gpu.physics.throttle_reasons(), kReasonSoftwarePowerCap);  // for half a second more
  gpu.pass(0.7);
  EXPECT_EQ(gpu.physics.throttle_reasons(), 0U);
  EXPECT_NEAR(gpu.physics.die_c(), 42, 1.5);
  gpu.pass(0.5);
  EXPECT_NEAR(gpu.state.average_power_w, 121, 1.5);
}

TEST(TracedH100, CopyingRunsAtTheHighestClock) {
  Bench gpu("H100");
  gpu.awake();
  gpu.start_matmul();
  gpu.pass(25);
  gpu.physics.stop_kernel();
  gpu.pass(4);
  gpu.start_copy(0.57);  // a copy draws less than the mean of kernels that memory limits
  EXPECT_NEAR(gpu.mean_power_w(8), 375, 6);
  EXPECT_EQ(gpu.state.sm_clock_mhz, 1980);
  EXPECT_NEAR(gpu.physics.die_c(), 41, 2);
  EXPECT_EQ(gpu.state.memory_utilisation_percent, 100);
}

// Physics.

/// What physics.cpp computes, once more and with nothing of it: explicit Euler steps of 50 us over the clocks that the
/// simulated GPU went through.
class EulerIntegrator {
 public:
  explicit EulerIntegrator(const SimulatedGpuModel& model, double die_rise_k, double package_rise_k)
      : model_(model), die_rise_k_(die_rise_k), package_rise_k_(package_rise_k) {}

  void step(double step_s, int clock_mhz, double compute, double memory) {
    const power::GpuPower& power = model_.power;
    const double top = model_.sm_clocks.max_mhz;
    const double rate = power.voltage.relative_v2(clock_mhz) * clock_mhz / top;
    const double die_c = model_.thermal.ambient_c + die_rise_k_ + package_rise_k_;
    double die_w = power.static_w + power.static_per_k_w * (die_c - 40) - model_.thermal.board_w;
    die_w += (compute * power.compute_w + memory * power.memory_sm_w) * rate - power.clock_tree_w * (1 - rate);
    const double total_w = die_w + model_.thermal.board_w + memory * power.memory_w;
    energy_j_ += total_w * step_s;
    const ThermalModel& thermal = model_.thermal;
    die_rise_k_ += step_s / thermal.die_time_constant_s * (thermal.die_k_per_w * die_w - die_rise_k_);
    package_rise_k_ += step_s / thermal.package_time_constant_s * (thermal.package_k_per_w * total_w - package_rise_k_);
  }
  [[nodiscard]] double energy_j() const { return energy_j_; }
  [[nodiscard]] double die_c() const { return model_.thermal.ambient_c + die_rise_k_ + package_rise_k_; }

 private:
  const SimulatedGpuModel& model_;
  double die_rise_k_;
  double package_rise_k_;
  double energy_j_ = 0;
};

TEST(Physics, EnergyAndHeatAgreeWithAnIndependentIntegrator) {
  for (const SimulatedGpuModel& model : gpu_models()) {
    std::mt19937_64 random(7);
    Bench gpu(model);
    gpu.awake();
    EulerIntegrator euler(model, gpu.state.die_rise_k, gpu.state.package_rise_k);
    // From a grid point on, where the state's temperatures are those of its time.
    const double before_j = gpu.physics.energy_j();
    ASSERT_EQ(gpu.state.time_ns, gpu.state.step_ns);
    for (int phase = 0; phase < 20; ++phase) {
      const double load = std::uniform_real_distribution<>(0, 1)(random);
      const int clock_mhz = model.sm_clocks.min_mhz + 15 * static_cast<int>(random() % 70);
      gpu.physics.lock_sm_clocks(clock_mhz, clock_mhz);
      if (phase % 3 == 0) gpu.physics.stop_kernel();
      if (phase % 3 == 1) gpu.start_matmul(load);
      if (phase % 3 == 2) gpu.start_copy();
      const double compute = phase % 3 == 1 ? load : 0;
      const double memory = phase % 3 == 2 ? 1 : 0;
      for (int i = 0; i < 10'000; ++i) {
        euler.step(50e-6, gpu.state.sm_clock_mhz, compute, memory);
        gpu.physics.advance_to(gpu.state.time_ns + 50'000);
      }
    }
    EXPECT_NEAR((gpu.physics.energy_j() - before_j) / euler.energy_j(), 1, 1e-3) << model.key.view();
    EXPECT_NEAR(gpu.physics.die_c(), euler.die_c(), 0.3) << model.key.view();
  }
}

/// Some minutes of work, the same for every way of looking at it.
template <typename Pass>
GpuPhysicsState eventful_minutes(Pass&& pass) {
  Bench gpu(find_gpu_model("H100"), 3);
  gpu.physics.set_contexts(1);
  pass(gpu, 1.2345);
  gpu.physics.start_kernel(3, 1, {.compute = 1, .memory = 0.5});
  pass(gpu, 0.777);
  gpu.physics.lock_sm_clocks(345, 900);
  pass(gpu, 2.5);
  gpu.physics.set_power_limit(250);
  gpu.physics.start_kernel(30, 0, {.compute = 0.8, .memory = 0});
  pass(gpu, 12.3456);
  gpu.physics.reset_sm_clocks();
  pass(gpu, 31);
  gpu.physics.set_contexts(0);
  pass(gpu, 8);
  return gpu.state;
}

TEST(Physics, DoesNotDependOnWhenItIsLookedAt) {
  const GpuPhysicsState once = eventful_minutes([](Bench& gpu, double time_s) { gpu.pass(time_s); });
  std::mt19937_64 random(11);
  const GpuPhysicsState often = eventful_minutes([&](Bench& gpu, double time_s) {
    const std::int64_t end_ns = gpu.state.time_ns + to_ns(time_s);
    while (gpu.state.time_ns < end_ns) {
      const auto step_ns = static_cast<std::int64_t>(random() % 20'000'000);
      gpu.physics.advance_to(std::min(end_ns, gpu.state.time_ns + step_ns));
    }
  });
  EXPECT_EQ(once.energy_j, often.energy_j);  // to the last bit
  EXPECT_EQ(once.energy_counter_j, often.energy_counter_j);
  EXPECT_EQ(once.average_power_w, often.average_power_w);
  EXPECT_EQ(once.die_rise_k, often.die_rise_k);
  EXPECT_EQ(once.kernels[0].end_ns, often.kernels[0].end_ns);
  EXPECT_EQ(once.sm_clock_mhz, often.sm_clock_mhz);
}

TEST(Physics, ALongIdleTimeIsTakenUpAtOnce) {
  Bench stepped("H100");
  Bench skipped("H100");
  for (Bench* const gpu : {&stepped, &skipped}) {
    gpu->awake();
    gpu->start_matmul();
    gpu->pass(10);
    gpu->physics.stop_kernel();
    gpu->physics.set_contexts(0);
  }
  for (int i = 0; i < 3600; ++i) stepped.pass(1);  // too short to skip
  skipped.pass(3600);
  EXPECT_NEAR(skipped.physics.energy_j() / stepped.physics.energy_j(), 1, 1e-9);
  EXPECT_NEAR(skipped.state.average_power_w, stepped.state.average_power_w, 1e-6);
  EXPECT_NEAR(skipped.state.energy_counter_j, stepped.state.energy_counter_j, 1e-3);
  skipped.pass(10 * 365 * 86'400.0);  // would take minutes step by step
  EXPECT_NEAR(skipped.mean_power_w(1), 68.4, 0.5);
}

TEST(Physics, AVoltageKneeShapesThePower) {
  for (const SimulatedGpuModel& model : gpu_models()) {
    double last_w = 0;
    double last_j_per_work = 1e9;
    bool rising = false;
    for (int clock_mhz = model.sm_clocks.min_mhz; clock_mhz <= model.sm_clocks.max_mhz; clock_mhz += 15) {
      const double power_w = working_power(model, clock_mhz, 50, {.compute = 1, .memory = 0}).total_w();
      EXPECT_GT(power_w, last_w);
      // Energy of a piece of work falls, then rises: there is a best clock inside the range.
      const double j_per_work = power_w / clock_mhz;
      if (j_per_work > last_j_per_work) rising = true;
      if (rising) {
        EXPECT_GT(j_per_work, last_j_per_work) << model.key.view() << " at " << clock_mhz;
      }
      last_w = power_w;
      last_j_per_work = j_per_work;
    }
    EXPECT_TRUE(rising) << model.key.view();
  }
}

// Power limit and temperature.

TEST(PowerLimit, IsHeldWithinOnePercent) {
  for (const SimulatedGpuModel& model : gpu_models()) {
    for (const double share : {1.0, 0.8, 0.6}) {
      for (const double load : {1.0, 0.85}) {
        Bench gpu(model);
        gpu.awake();
        const double limit_w = std::max(model.power_limit_min_w, share * model.power_limit_max_w);
        gpu.physics.set_power_limit(limit_w);
        gpu.start_matmul(load);
        gpu.pass(1);
        const bool capped = (gpu.physics.throttle_reasons() & kReasonSoftwarePowerCap) != 0;
        EXPECT_TRUE(capped) << model.key.view() << " at " << limit_w << " W and load " << load;
        EXPECT_NEAR(gpu.mean_power_w(1) / limit_w, 1, 0.01) << model.key.view() << " at " << limit_w;
        EXPECT_NEAR(gpu.mean_power_w(20) / limit_w, 1, 0.01) << model.key.view() << " at " << limit_w;
      }
    }
  }
}

TEST(PowerLimit, IsHeldForShortKernelsWithGaps) {
  Bench gpu("H100");
  gpu.awake();
  const auto run_for = [&](double time_s) {
    const std::int64_t end_ns = gpu.state.time_ns + to_ns(time_s);
    while (gpu.state.time_ns < end_ns) {
      gpu.physics.start_kernel(0.0013, 0, {.compute = 1, .memory = 0});
      gpu.physics.advance_to_kernel_end();
      gpu.pass(0.0002);
    }
  };
  run_for(1);
  const double before_j = gpu.physics.energy_j();
  const std::int64_t before_ns = gpu.state.time_ns;
  run_for(5);
  const double time_s = static_cast<double>(gpu.state.time_ns - before_ns) * 1e-9;
  EXPECT_NEAR((gpu.physics.energy_j() - before_j) / time_s, 700, 7);
}

/// Time of a kernel at the clock, between those of the model, at which the GPU draws so much: power by its parts,
/// written out again, and bisection.
double time_within_power_s(const SimulatedGpuModel& model, double compute_s, double memory_s, double load,
                           double limit_w, double die_c) {
  const power::GpuPower& parts = model.power;
  const double most_mhz = model.sm_clocks.max_mhz;
  const auto time_s = [&](double clock_mhz) { return compute_s * most_mhz / clock_mhz + memory_s; };
  const auto power_w = [&](double clock_mhz) {
    const double compute = compute_s * most_mhz / clock_mhz / time_s(clock_mhz);
    const double memory = 1 - compute;
    const double rate = parts.voltage.relative_v2(clock_mhz) * clock_mhz / most_mhz;
    return parts.static_w + parts.static_per_k_w * (die_c - 40) - parts.clock_tree_w * (1 - rate) +
           load * compute * parts.compute_w * rate + load * memory * (parts.memory_w + parts.memory_sm_w * rate);
  };
  double low_mhz = model.sm_clocks.min_mhz;
  double high_mhz = most_mhz;
  for (int i = 0; i < 60; ++i) {
    const double middle_mhz = (low_mhz + high_mhz) / 2;
    (power_w(middle_mhz) <= limit_w ? low_mhz : high_mhz) = middle_mhz;
  }
  return time_s(low_mhz);
}

TEST(PowerLimit, MakesWorkTakeAsLongAsAtTheClockThatDrawsIt) {
  constexpr double kComputeS = 0.2;
  constexpr double kMemoryS = 0.05;
  constexpr double kLoad = 0.9;
  for (const double limit_w : {600.0, 500.0, 400.0, 300.0}) {
    Bench gpu("H100");
    gpu.awake();
    gpu.physics.set_power_limit(limit_w);
    const auto run_kernel = [&] {
      gpu.physics.start_kernel(kComputeS, kMemoryS, {.compute = kLoad, .memory = kLoad});
      gpu.physics.advance_to_kernel_end();
    };
    for (int i = 0; i < 100; ++i) run_kernel();  // it warms up
    const double before_j = gpu.physics.energy_j();
    const std::int64_t before_ns = gpu.state.time_ns;
    constexpr int kKernels = 40;
    for (int i = 0; i < kKernels; ++i) run_kernel();
    const double time_s = static_cast<double>(gpu.state.time_ns - before_ns) * 1e-9 / kKernels;
    const double expected_s = time_within_power_s(gpu.model, kComputeS, kMemoryS, kLoad, limit_w, gpu.physics.die_c());
    EXPECT_NEAR(time_s / expected_s, 1, 0.01) << limit_w << " W";
    EXPECT_NEAR((gpu.physics.energy_j() - before_j) / kKernels / (limit_w * expected_s), 1, 0.015) << limit_w << " W";
  }
}

TEST(PowerLimit, LeavesLightWorkAlone) {
  Bench gpu("H100");
  gpu.awake();
  gpu.start_matmul(0.2);
  gpu.pass(5);
  EXPECT_EQ(gpu.state.sm_clock_mhz, 1980);
  EXPECT_EQ(gpu.physics.throttle_reasons(), 0U);
}

TEST(PowerLimit, GoesBelowALockedClock) {
  Bench gpu("H100");
  gpu.awake();
  gpu.physics.lock_sm_clocks(1980, 1980);
  gpu.start_matmul();
  gpu.pass(1);
  EXPECT_LT(gpu.state.sm_clock_mhz, 1500);
  gpu.physics.lock_sm_clocks(900, 900);
  gpu.pass(2);
  EXPECT_EQ(gpu.state.sm_clock_mhz, 900);
  EXPECT_EQ(gpu.physics.throttle_reasons(), 0U);
}

TEST(Temperature, SlowsAHotGpuDown) {
  SimulatedGpuModel model = find_gpu_model("H100");
  model.thermal.ambient_c = 72;  // a failed fan
  Bench gpu(model);
  gpu.awake();
  gpu.start_matmul();
  gpu.pass(60);
  EXPECT_TRUE((gpu.physics.throttle_reasons() & (kReasonSoftwareThermal | kReasonHardwareThermal)) != 0);
  EXPECT_LT(gpu.physics.die_c(), 91);
  EXPECT_LT(gpu.state.sm_clock_mhz, 1275);
  gpu.physics.stop_kernel();
  gpu.pass(60);
  EXPECT_EQ(gpu.physics.throttle_reasons(), 0U);
  EXPECT_EQ(gpu.state.sm_clock_mhz, 1980);
}

// Clocks.

TEST(Clocks, AreReachedAfterATransition) {
  Bench gpu("H100");
  gpu.awake();
  gpu.physics.lock_sm_clocks(345, 990);
  const std::int64_t due_ns = gpu.state.pending_ns;
  EXPECT_GT(due_ns, gpu.state.time_ns);
  gpu.physics.advance_to(due_ns - 1);
  EXPECT_EQ(gpu.state.sm_clock_mhz, 1980);
  gpu.physics.advance_to(due_ns);
  EXPECT_EQ(gpu.state.sm_clock_mhz, 990);
  gpu.physics.reset_sm_clocks();
  gpu.pass(1);
  EXPECT_EQ(gpu.state.sm_clock_mhz, 1980);
}

TEST(Clocks, TheLatestRequestWins) {
  Bench gpu("H100");
  gpu.awake();
  gpu.physics.lock_sm_clocks(600, 600);
  gpu.physics.lock_sm_clocks(900, 900);
  gpu.physics.lock_sm_clocks(1980, 1980);  // where it is still
  for (int i = 0; i < 1000; ++i) {
    gpu.pass(0.001);
    EXPECT_EQ(gpu.state.sm_clock_mhz, 1980);
  }
}

TEST(Clocks, TransitionsDependOnTheTargetAndTheGpu) {
  const auto median_s = [](std::uint64_t seed, int clock_mhz) {
    Bench gpu(find_gpu_model("H100"), seed);
    gpu.awake();
    std::vector<double> times_s;
    for (int i = 0; i < 41; ++i) {
      gpu.physics.lock_sm_clocks(clock_mhz, clock_mhz);
      times_s.push_back(static_cast<double>(gpu.state.pending_ns - gpu.state.time_ns) * 1e-9);
      gpu.pass(1);
      gpu.physics.reset_sm_clocks();
      gpu.pass(1);
    }
    std::nth_element(times_s.begin(), times_s.begin() + 20, times_s.end());
    return times_s[20];
  };
  EXPECT_EQ(median_s(1, 900), median_s(1, 900));
  std::set<double> medians_s;
  for (int clock_mhz = 600; clock_mhz < 900; clock_mhz += 15) {
    medians_s.insert(median_s(1, clock_mhz));
    EXPECT_GT(*medians_s.begin(), 0.001);
    EXPECT_LT(*medians_s.rbegin(), 0.1);
  }
  EXPECT_GT(*medians_s.rbegin() / *medians_s.begin(), 1.5);
  EXPECT_NE(median_s(1, 600), median_s(2, 600));
}

TEST(Clocks, CallsTakeTenToTwentyMilliseconds) {
  Bench gpu("A100");
  int outside = 0;
  for (int i = 0; i < 1000; ++i) {
    const double latency_s = gpu.physics.draw_call_latency_s();
    if (latency_s < 0.010 || latency_s > 0.020) ++outside;
  }
  EXPECT_LT(outside, 50);
}

TEST(Clocks, FallWhenNobodyIsThere) {
  Bench gpu("A40");
  gpu.awake().pass(100);
  EXPECT_EQ(gpu.state.sm_clock_mhz, 1740);
  EXPECT_EQ(gpu.state.memory_clock_mhz, 7251);
  gpu.physics.set_contexts(0);
  gpu.pass(gpu.model.idle_after_s / 2);
  EXPECT_EQ(gpu.state.sm_clock_mhz, 1740);
  gpu.pass(gpu.model.idle_after_s);
  EXPECT_EQ(gpu.state.sm_clock_mhz, 210);
  EXPECT_EQ(gpu.state.memory_clock_mhz, 405);
  EXPECT_EQ(gpu.physics.throttle_reasons(), kReasonIdle);
}

TEST(Clocks, ALockedRangeBetweenTwoStepsIsRounded) {
  Bench gpu(without_latency("H100"));
  gpu.awake();
  gpu.physics.lock_sm_clocks(400, 1000);
  gpu.pass(0.1);
  EXPECT_EQ(gpu.state.sm_clock_mhz, 990);
  gpu.physics.lock_sm_clocks(1000, 1000);
  gpu.pass(0.1);
  EXPECT_EQ(gpu.state.sm_clock_mhz, 1005);
  gpu.physics.lock_sm_clocks(1, 100);
  gpu.pass(0.1);
  EXPECT_EQ(gpu.state.sm_clock_mhz, 345);
}

// Kernels.

TEST(Kernels, TakeComputeTimeByClockAndMemoryTime) {
  const SimulatedGpuModel model = without_latency("H100");
  for (const int clock_mhz : {345, 900, 1410, 1980}) {
    Bench gpu(model);
    gpu.awake();
    gpu.physics.lock_sm_clocks(clock_mhz, clock_mhz);
    gpu.pass(0.0123);
    const std::int64_t start_ns = gpu.state.time_ns;
    gpu.physics.start_kernel(0.5, 0.25, {.compute = 0.1, .memory = 0.1});
    const double elapsed_s = static_cast<double>(gpu.physics.advance_to_kernel_end() - start_ns) * 1e-9;
    EXPECT_NEAR(elapsed_s, 0.5 * 1980 / clock_mhz + 0.25, 2e-9) << clock_mhz;
  }
}

TEST(Kernels, FollowAClockThatChanges) {
  Bench gpu(without_latency("H100"));
  gpu.awake();
  const std::int64_t start_ns = gpu.state.time_ns;
  gpu.physics.start_kernel(1, 0, {.compute = 0.1, .memory = 0});
  gpu.pass(0.5);
  gpu.physics.lock_sm_clocks(990, 990);
  const double elapsed_s = static_cast<double>(gpu.physics.advance_to_kernel_end() - start_ns) * 1e-9;
  EXPECT_NEAR(elapsed_s, 0.5 + 0.5 * 2, 1e-8);
}

TEST(Kernels, EnergyOfAPieceOfWorkHasAMinimumBelowTheHighestClock) {
  const SimulatedGpuModel model = without_latency("A100");
  const auto energy_j = [&](int clock_mhz) {
    Bench gpu(model);
    gpu.awake();
    gpu.physics.lock_sm_clocks(clock_mhz, clock_mhz);
    gpu.pass(1);
    const double before_j = gpu.physics.energy_j();
    gpu.physics.start_kernel(5, 1, {.compute = 0.7, .memory = 0.7});
    gpu.physics.advance_to_kernel_end();
    return gpu.physics.energy_j() - before_j;
  };
  EXPECT_LT(energy_j(1005), energy_j(1410));
  EXPECT_LT(energy_j(1005), energy_j(300));
}

// Sensors.

TEST(Sensors, TheCounterStepsOncePerPeriod) {
  Bench gpu("H100");
  gpu.awake();
  gpu.start_matmul();
  double last_j = gpu.state.energy_counter_j;
  std::vector<std::int64_t> steps_ns;
  for (int i = 0; i < 3000; ++i) {
    gpu.physics.advance_to(gpu.state.time_ns + kMillisecondNs);
    EXPECT_GE(gpu.state.energy_counter_j, last_j);
    EXPECT_LE(gpu.state.energy_counter_j, gpu.physics.energy_j());
    if (gpu.state.energy_counter_j != last_j) {
      steps_ns.push_back(gpu.state.time_ns);
      EXPECT_DOUBLE_EQ(gpu.state.energy_counter_j, gpu.physics.energy_j());
    }
    last_j = gpu.state.energy_counter_j;
  }
  ASSERT_EQ(steps_ns.size(), 30U);
  for (std::size_t i = 1; i < steps_ns.size(); ++i) EXPECT_EQ(steps_ns[i] - steps_ns[i - 1], 100 * kMillisecondNs);
}

TEST(Sensors, TheAveragePowerIsThatOfItsWindow) {
  Bench gpu("H100");
  gpu.awake().pass(2);
  gpu.start_copy();
  double last_w = gpu.state.average_power_w;
  int steps = 0;
  for (int i = 0; i < 1200; ++i) {
    gpu.physics.advance_to(gpu.state.time_ns + kMillisecondNs);
    if (gpu.state.average_power_w != last_w && gpu.state.average_power_w - last_w > 5) ++steps;
    last_w = gpu.state.average_power_w;
  }
  EXPECT_THAT(steps, testing::AllOf(testing::Ge(10), testing::Le(11)));  // a ramp of one second
  EXPECT_NEAR(last_w, gpu.mean_power_w(0.1), 2);
}

TEST(Sensors, TheInstantaneousPowerSeesAQuarterOfTheTime) {
  Bench gpu("H100");
  gpu.awake().pass(2);
  const double idle_w = gpu.state.instant_power_w;
  // Work in the 70 ms after each refresh, which the last 25 ms before the next do not cover.
  const std::int64_t period_ns = 100 * kMillisecondNs;
  std::int64_t refresh_ns = gpu.state.power_phase_ns;
  while (refresh_ns <= gpu.state.time_ns) refresh_ns += period_ns;
  for (int i = 0; i < 20; ++i, refresh_ns += period_ns) {
    gpu.physics.advance_to(refresh_ns);
    gpu.physics.start_kernel(0, 0.070, {.compute = 0, .memory = 1});
    gpu.physics.advance_to_kernel_end();
  }
  gpu.physics.advance_to(refresh_ns);
  EXPECT_NEAR(gpu.state.instant_power_w, idle_w, 8);  // it is warmer, no more
  EXPECT_NEAR(gpu.state.average_power_w, idle_w + 0.7 * 446, 10);
}

TEST(Sensors, OnA100TheAverageIsTheInstantaneousPower) {
  Bench gpu("A100");
  gpu.awake();
  gpu.start_matmul();
  for (int i = 0; i < 50; ++i) {
    gpu.pass(0.0137);
    EXPECT_EQ(gpu.state.average_power_w, gpu.state.instant_power_w);
  }
}

TEST(Sensors, UtilisationIsTheShareOfTimeInKernels) {
  Bench gpu("H100");
  gpu.awake();
  for (int i = 0; i < 200; ++i) {
    gpu.physics.start_kernel(0.001, 0.001, {.compute = 0.1, .memory = 0.1});
    gpu.physics.advance_to_kernel_end();
    gpu.pass(0.008);
  }
  EXPECT_NEAR(gpu.state.gpu_utilisation_percent, 20, 1);
  EXPECT_NEAR(gpu.state.memory_utilisation_percent, 10, 1);
}

TEST(Sensors, PhasesDifferBetweenGpus) {
  std::set<std::int64_t> phases_ns;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    phases_ns.insert(idle_gpu(find_gpu_model("H100"), seed).power_phase_ns);
  EXPECT_GT(phases_ns.size(), 5U);
}

TEST(Sensors, AnIdleGpuReadsTheSameForEverButForTheNoiseOfItsSensors) {
  Bench gpu("H200");
  const double power_w = gpu.state.average_power_w;
  std::set<double> instant_w;
  std::set<double> average_w;
  double sum_w = 0;
  constexpr int kReadings = 2'000;
  for (int i = 0; i < kReadings; ++i) {
    gpu.pass(0.1);
    EXPECT_NEAR(gpu.state.instant_power_w, power_w, 3.001 * 0.35);
    EXPECT_NEAR(gpu.state.average_power_w, power_w, 3.001 * 0.035);
    instant_w.insert(gpu.state.instant_power_w);
    average_w.insert(gpu.state.average_power_w);
    sum_w += gpu.state.instant_power_w;
  }
  // A program that takes a reading only when it differs from the last (Zeus' power monitor) sees every one.
  EXPECT_GT(instant_w.size(), 0.98 * kReadings);
  EXPECT_GT(average_w.size(), 0.98 * kReadings);
  EXPECT_NEAR(sum_w / kReadings, power_w, 0.03) << "noise adds nothing in the mean";
}

TEST(Sensors, NoiseIsTheSameInEveryRunAndAnotherOnEveryGpu) {
  const auto readings_w = [](std::uint64_t seed) {
    const SimulatedGpuModel& model = find_gpu_model("H100");
    GpuPhysicsState state = idle_gpu(model, seed);
    GpuPhysics physics(model, state);
    std::vector<double> readings;
    for (int i = 1; i <= 20; ++i) {
      physics.advance_to(i * 100 * kMillisecondNs);
      readings.push_back(state.instant_power_w);
    }
    return readings;
  };
  EXPECT_EQ(readings_w(1), readings_w(1));
  EXPECT_NE(readings_w(1), readings_w(2));
}

TEST(Sensors, NoiseLeavesTheEnergyCounterAlone) {
  SimulatedGpuModel silent = find_gpu_model("H100");
  silent.sensors.instant_noise_w = silent.sensors.average_noise_w = 0;
  GpuPhysicsState quiet = idle_gpu(silent, 3);
  GpuPhysicsState noisy = idle_gpu(find_gpu_model("H100"), 3);
  GpuPhysics(silent, quiet).advance_to(60'000 * kMillisecondNs);
  GpuPhysics(find_gpu_model("H100"), noisy).advance_to(60'000 * kMillisecondNs);
  EXPECT_EQ(quiet.energy_counter_j, noisy.energy_counter_j);
  EXPECT_NE(quiet.average_power_w, noisy.average_power_w);
}

// Several kernels at the same time.

/// Ends of two kernels of 1 s that start together at an unlimited clock, in s after their start.
std::vector<double> ends_of_two(KernelSharing sharing, double width) {
  Bench gpu(without_latency("H100"));
  gpu.awake();
  gpu.physics.set_sharing(sharing);
  const std::int64_t start_ns = gpu.state.time_ns;
  const double start_j = gpu.physics.energy_j();
  gpu.physics.start_kernel(1, 0, {.compute = 0.1, .memory = 0}, width, 0);
  gpu.physics.start_kernel(1, 0, {.compute = 0.1, .memory = 0}, width, 1);
  std::vector<double> ends;
  for (const std::size_t slot : {0U, 1U}) {
    ends.push_back(static_cast<double>(gpu.physics.advance_to_kernel_end(slot) - start_ns) * 1e-9);
  }
  ends.push_back(gpu.physics.energy_j() - start_j);
  return ends;
}

TEST(SharedKernels, TakeTheTimeThatTheirSharingAllows) {
  const std::vector<double> turns = ends_of_two(KernelSharing::time_slicing, 0.4);
  EXPECT_NEAR(turns[0], 2, 1e-6);
  EXPECT_NEAR(turns[1], 2, 1e-6);
  const std::vector<double> together = ends_of_two(KernelSharing::concurrent, 0.4);
  EXPECT_NEAR(together[0], 1, 1e-6);
  const std::vector<double> wide = ends_of_two(KernelSharing::concurrent, 0.75);
  EXPECT_NEAR(wide[1], 1.5, 1e-6);
}

TEST(SharedKernels, DrawTheEnergyOfTheirWork) {
  // A shorter time saves the awake GPU's power alone; what is left are differences of temperature.
  Bench idle(without_latency("H100"));
  const double awake_w = idle.awake().mean_power_w(0.5);
  const std::vector<double> turns = ends_of_two(KernelSharing::time_slicing, 0.4);
  const std::vector<double> together = ends_of_two(KernelSharing::concurrent, 0.4);
  EXPECT_NEAR(turns[2] - 2 * awake_w, together[2] - awake_w, 0.05 * (together[2] - awake_w));
}

TEST(SharedKernels, RunFasterWhenOneEndsOrTheClockRises) {
  Bench gpu(without_latency("H100"));
  gpu.awake();
  const std::int64_t start_ns = gpu.state.time_ns;
  gpu.physics.start_kernel(1, 0, {.compute = 0.1, .memory = 0}, 1, 0);
  gpu.physics.start_kernel(2, 0, {.compute = 0.1, .memory = 0}, 1, 3);
  const auto end_s = [&](std::size_t slot) {
    return static_cast<double>(gpu.physics.advance_to_kernel_end(slot) - start_ns) * 1e-9;
  };
  EXPECT_NEAR(end_s(0), 2, 1e-6);
  EXPECT_NEAR(end_s(3), 3, 1e-6);
  EXPECT_FALSE(gpu.state.kernels[3].active);
}

TEST(SharedKernels, AreStoppedOneByOne) {
  Bench gpu(without_latency("H100"));
  gpu.awake();
  gpu.physics.start_kernel(1, 0, {.compute = 0.1, .memory = 0}, 1, 0);
  gpu.physics.start_kernel(1, 0, {.compute = 0.1, .memory = 0}, 1, 1);
  gpu.pass(1);
  const std::int64_t stop_ns = gpu.state.time_ns;
  gpu.physics.stop_kernel(0);
  EXPECT_FALSE(gpu.state.kernels[0].active);
  EXPECT_NEAR(static_cast<double>(gpu.physics.advance_to_kernel_end(1) - stop_ns) * 1e-9, 0.5, 1e-6);
}

}  // namespace
}  // namespace lowgear::simgpu
