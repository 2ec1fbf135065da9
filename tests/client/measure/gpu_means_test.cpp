#include "client/measure/gpu_means.h"

#include <gtest/gtest.h>

namespace lowgear::client {
namespace {

MeasuredIteration iteration(double time_s, double power_w, double mean_clock_mhz, int min_clock_mhz,
                            int max_clock_mhz) {
  MeasuredIteration iteration;
  iteration.time_s = time_s;
  iteration.energy_j = power_w * time_s;
  iteration.mean_sm_clock_mhz = mean_clock_mhz;
  iteration.min_sm_clock_mhz = min_clock_mhz;
  iteration.max_sm_clock_mhz = max_clock_mhz;
  return iteration;
}

TEST(GpuMeans, HasNothingToSayBeforeAnIteration) {
  const protocol::GpuNow now = GpuMeans().now();
  EXPECT_FALSE(now.power_w || now.sm_clock_mhz || now.sm_clock_min_mhz || now.sm_clock_max_mhz || now.temperature_c);
}

TEST(GpuMeans, WeighsIterationsByTheirTime) {
  GpuMeans means;
  means.add(iteration(1, 400, 1000, 900, 1410));
  means.add(iteration(3, 800, 1400, 1200, 1500));
  means.set_temperature(61);
  const protocol::GpuNow now = means.now();
  EXPECT_DOUBLE_EQ(now.power_w.value(), 700);
  EXPECT_DOUBLE_EQ(now.sm_clock_mhz.value(), 1300);
  EXPECT_EQ(now.sm_clock_min_mhz, 900);
  EXPECT_EQ(now.sm_clock_max_mhz, 1500);
  EXPECT_EQ(now.temperature_c, 61);
}

TEST(GpuMeans, ForgetsWhatLiesMoreThanFiveSecondsBack) {
  GpuMeans means;
  means.add(iteration(2, 100, 600, 600, 600));
  for (int i = 0; i < 3; ++i) means.add(iteration(2, 500, 1200, 1100, 1300));
  EXPECT_DOUBLE_EQ(means.now().power_w.value(), 500);
  EXPECT_EQ(means.now().sm_clock_min_mhz, 1100);
  means.add(iteration(20, 300, 900, 800, 1000));
  EXPECT_DOUBLE_EQ(means.now().power_w.value(), 300) << "one iteration where that is longer";
}

TEST(GpuMeans, TakesWhatIsReportedWhereSomethingIsNot) {
  GpuMeans means;
  MeasuredIteration without_energy = iteration(1, 0, 1000, 900, 1100);
  without_energy.energy_j.reset();
  means.add(without_energy);
  EXPECT_FALSE(means.now().power_w);
  MeasuredIteration without_clock = iteration(2, 450, 0, 0, 0);
  without_clock.mean_sm_clock_mhz.reset();
  without_clock.min_sm_clock_mhz.reset();
  without_clock.max_sm_clock_mhz.reset();
  means.add(without_clock);
  EXPECT_DOUBLE_EQ(means.now().power_w.value(), 450);
  EXPECT_DOUBLE_EQ(means.now().sm_clock_mhz.value(), 1000);
  EXPECT_EQ(means.now().sm_clock_min_mhz, 900);
}

}  // namespace
}  // namespace lowgear::client
