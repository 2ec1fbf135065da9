#include "estimating/estimator/power/power_model.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "estimating/estimator/gpu/test_name_of_gpu.h"

namespace lowgear::estimator {
namespace {

const power::VoltageCurve kCurve(std::vector<power::VoltagePoint>{{500, 0.25}, {1000, 1}}, 500);

/// Round numbers: 100 TFLOP/s, 1 TB/s, 100 GB/s; V^2 0.25 up to 500 MHz, then a line to 1 at 1000 MHz.
GpuModel simple_gpu() {
  GpuModel gpu;
  gpu.fp16_flops = 100e12;
  gpu.memory_bytes_per_s = 1e12;
  gpu.link_bytes_per_s = 100e9;
  gpu.clocks = {100, 1000, 10};
  gpu.power = {.idle_w = 20,
               .static_w = 50,
               .clock_tree_w = 10,
               .blocking_w = 60,
               .compute_w = 400,
               .memory_w = 100,
               .memory_sm_w = 40,
               .link_w = 30,
               .limit_w = 1000,
               .voltage = kCurve};
  return gpu;
}

/// A second of products.
constexpr WorkCost kProducts{.core_s = 1, .flops = 50e12, .memory_bytes = 0.2e12};

TEST(WorkEnergy, AtTheHighestClockIsTheSumOfItsParts) {
  const GpuModel gpu = simple_gpu();
  const WorkEnergy energy(gpu, kProducts);
  EXPECT_DOUBLE_EQ(energy.sustained_clock_mhz(), 1000);
  const TimedEnergy taken = energy.at_clock(1000);
  EXPECT_DOUBLE_EQ(taken.time_s, 1);
  EXPECT_DOUBLE_EQ(taken.energy_j, 50 + 400);
  const EnergySplit split = energy.split_at(1000);
  EXPECT_DOUBLE_EQ(split.static_j, 50);
  EXPECT_DOUBLE_EQ(split.compute_j, 400);
  EXPECT_DOUBLE_EQ(split.memory_j, 0) << "in what busy multiprocessors draw";
  EXPECT_DOUBLE_EQ(split.total_j(), taken.energy_j);
}

TEST(WorkEnergy, BelowTheKneeOnlyTimeChanges) {
  const GpuModel gpu = simple_gpu();
  const WorkEnergy energy(gpu, kProducts);
  const TimedEnergy at_knee = energy.at_clock(500);
  EXPECT_DOUBLE_EQ(at_knee.time_s, 2);
  // Clock tree: half the clock, a quarter of V^2.
  EXPECT_DOUBLE_EQ(at_knee.energy_j, (40 + 10 * 0.125) * 2 + 400 * 0.25);
  const TimedEnergy below = energy.at_clock(250);
  EXPECT_DOUBLE_EQ(below.time_s, 4);
  EXPECT_DOUBLE_EQ(energy.split_at(250).compute_j, energy.split_at(500).compute_j);
  EXPECT_GT(below.energy_j, at_knee.energy_j) << "static power for longer";
}

TEST(WorkEnergy, OnlyWhatTheCoresLimitTakesLongerAtALowerClock) {
  const GpuModel gpu = simple_gpu();
  const WorkCost mixed{
      .core_s = 1, .memory_s = 2, .link_s = 3, .flops = 1e12, .memory_bytes = 1e12, .link_bytes = 1e11};
  const WorkEnergy energy(gpu, mixed);
  EXPECT_DOUBLE_EQ(energy.at_clock(500).time_s, 2 + 2 + 3);
  EXPECT_DOUBLE_EQ(energy.split_at(1000).memory_j, (100 + 40) * 2);
  EXPECT_DOUBLE_EQ(energy.split_at(500).memory_j, (100 + 40 * 0.125) * 2) << "half the clock, a quarter of V^2";
  EXPECT_DOUBLE_EQ(energy.split_at(500).link_j, 30 + 10 * 3) << "busy links, and a GPU that spins meanwhile";
}

TEST(WorkEnergy, TakesTheTimeOfWorkThatMeetsThePowerLimitAsMeasuredUnderIt) {
  GpuModel gpu = simple_gpu();
  gpu.power.limit_w = 300;
  const WorkEnergy energy(gpu, kProducts);
  const double sustained_mhz = energy.sustained_clock_mhz();
  EXPECT_LT(sustained_mhz, 1000);
  EXPECT_GT(sustained_mhz, 500);
  EXPECT_DOUBLE_EQ(energy.at_clock(1000).time_s, 1) << "what full clocks take is what was measured";
  EXPECT_NEAR(energy.at_clock(1000).power_w(), 300, 0.01);
  EXPECT_DOUBLE_EQ(energy.at_clock(1000).energy_j, energy.at_clock(sustained_mhz).energy_j);
  EXPECT_NEAR(energy.at_clock(sustained_mhz / 2).time_s, 2, 1e-9) << "slower clocks count from the sustained one";
}

TEST(WorkEnergy, WaitingAddsBlockingPowerAndNoHigherClock) {
  GpuModel gpu = simple_gpu();
  gpu.power.limit_w = 300;
  WorkCost waits = kProducts;
  waits.wait_s = 3;
  const WorkEnergy without(gpu, kProducts);
  const WorkEnergy with(gpu, waits);
  EXPECT_EQ(with.sustained_clock_mhz(), without.sustained_clock_mhz());
  EXPECT_EQ(with.sustained_clock_mhz(200), without.sustained_clock_mhz(200));
  for (const double clock_mhz : {1000, 400}) {
    EXPECT_DOUBLE_EQ(with.at_clock(clock_mhz).time_s, without.at_clock(clock_mhz).time_s + 3);
    EXPECT_NEAR(with.at_clock(clock_mhz).energy_j, without.at_clock(clock_mhz).energy_j + 3 * gpu.power.blocking_w,
                1e-9);
  }
}

TEST(WorkEnergy, NeverDrawsMoreThanTheLimitAlsoBelowTheKnee) {
  GpuModel gpu = simple_gpu();
  gpu.power.limit_w = 80;  // 91 W at the knee
  const WorkEnergy energy(gpu, kProducts);
  EXPECT_LT(energy.sustained_clock_mhz(), 500);
  EXPECT_GT(energy.sustained_clock_mhz(), 250);
  for (int clock_mhz = 100; clock_mhz <= 1000; clock_mhz += 50) {
    EXPECT_LE(energy.at_clock(clock_mhz).power_w(), 80 * (1 + 1e-9)) << clock_mhz;
  }
}

TEST(WorkEnergy, FindsTheClockForALowerPowerLimit) {
  const GpuModel gpu = simple_gpu();
  const WorkEnergy energy(gpu, kProducts);
  const auto at_limit = [&](double limit_w) { return energy.at_clock(energy.sustained_clock_mhz(limit_w)); };
  const TimedEnergy capped = at_limit(250);
  EXPECT_NEAR(capped.power_w(), 250, 0.01);
  EXPECT_GT(capped.time_s, 1);
  const TimedEnergy free = at_limit(900);
  EXPECT_DOUBLE_EQ(free.time_s, 1);
  const TimedEnergy lowest = at_limit(1);
  EXPECT_NEAR(lowest.time_s, 10, 1e-4) << "no clock is low enough: the lowest";
}

TEST(WorkEnergy, DrawsInProportionToTheLoadOfItsKernels) {
  const GpuModel gpu = simple_gpu();
  WorkCost mixed{.core_s = 1, .core_load = 0.5};
  mixed += WorkCost{.core_s = 3};
  mixed += WorkCost{.memory_s = 1, .core_load = 0.1};
  EXPECT_DOUBLE_EQ(mixed.core_load, 0.875);
  EXPECT_DOUBLE_EQ(WorkEnergy(gpu, mixed).split_at(1000).compute_j, 400 * 3.5);
}

TEST(WorkEnergy, OfNothingIsNothing) {
  const GpuModel gpu = simple_gpu();
  const TimedEnergy taken = WorkEnergy(gpu, {}).at_clock(500);
  EXPECT_EQ(taken.time_s, 0);
  EXPECT_EQ(taken.energy_j, 0);
  EXPECT_EQ(taken.power_w(), 0);
}

class PowerOfCatalogue : public testing::TestWithParam<std::string> {};

TEST_P(PowerOfCatalogue, IsCompleteAndInOrder) {
  const GpuModel gpu = named_gpu(GetParam());
  const power::GpuPower& power = gpu.power;
  EXPECT_GT(power.idle_w, 0);
  EXPECT_GT(power.static_w, power.idle_w) << "awake is more than asleep";
  EXPECT_LT(power.clock_tree_w, power.static_w);
  EXPECT_GE(power.blocking_w, power.static_w) << "spinning is more than doing nothing";
  EXPECT_GT(power.limit_w, power.blocking_w);
  EXPECT_EQ(power.voltage.points().back().clock_mhz, gpu.clocks.max_mhz);
  EXPECT_GT(power.voltage.points().front().clock_mhz, gpu.clocks.min_mhz);
  EXPECT_LT(power.voltage.relative_v2(gpu.clocks.min_mhz), 0.7);
  EXPECT_FALSE(gpu.power_source.empty());
}

TEST_P(PowerOfCatalogue, BusyMultiprocessorsComeToThePowerLimit) {
  const GpuModel gpu = named_gpu(GetParam());
  const WorkCost work{.core_s = 1};
  const double power_w = WorkEnergy(gpu, work).at_clock(gpu.clocks.max_mhz).power_w();
  EXPECT_GT(power_w, 0.9 * gpu.power.limit_w) << "as every GPU measured so far does";
  EXPECT_LE(power_w, gpu.power.limit_w * (1 + 1e-9));
}

INSTANTIATE_TEST_SUITE_P(AllGpus, PowerOfCatalogue, testing::ValuesIn(gpu_names()), test_name_of_gpu);

TEST(PowerOfH100, IsWhatWasMeasured) {
  const GpuModel gpu = named_gpu("h100-sxm");
  // data/h100-sxm: matrix products run at 1289-1430 MHz at the limit of 700 W; additions of residuals draw 521-535 W.
  const WorkCost products{.core_s = 1};
  EXPECT_NEAR(WorkEnergy(gpu, products).at_clock(1980).power_w(), 700, 1);
  EXPECT_NEAR(WorkEnergy(gpu, products).sustained_clock_mhz(), 1340, 40);
  const WorkCost additions{.memory_s = 1};
  EXPECT_NEAR(WorkEnergy(gpu, additions).at_clock(1980).power_w(), 528, 40);
}

TEST(PowerOfH200, IsWhatWasMeasured) {
  const GpuModel gpu = named_gpu("h200");
  // At the limit of 700 W: bf16 products at 1471 MHz, fp8 products at 1354 MHz, fused attention at 1863 MHz.
  const auto sustained_mhz = [&gpu](double load) {
    return WorkEnergy(gpu, {.core_s = 1, .core_load = load}).sustained_clock_mhz();
  };
  EXPECT_NEAR(sustained_mhz(1), 1471, 20);
  EXPECT_NEAR(sustained_mhz(gpu.power.fp8_share), 1354, 20);
  EXPECT_NEAR(sustained_mhz(gpu.power.attention_share), 1863, 40);
  // data/h200-sxm: an all-reduce of 1 GiB among four GPUs takes 4.55 ms and draws 289 W; its GPUs send 1.5 times that.
  const double sent_bytes = 1.5 * 1024 * 1024 * 1024;
  const WorkCost all_reduce{.link_s = 4.552e-3, .link_bytes = sent_bytes};
  EXPECT_NEAR(WorkEnergy(gpu, all_reduce).at_clock(1980).power_w(), 289, 15);
}

}  // namespace
}  // namespace lowgear::estimator
