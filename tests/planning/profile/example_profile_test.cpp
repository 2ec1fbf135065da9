#include "planning/profile/example_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planning/profile/profile_file.h"
#include "planning/profile/summary.h"

namespace lowgear::profile {
namespace {

TEST(ExampleProfile, HasEveryClockOfEveryStage) {
  const StageProfile profile = example_profile();
  ASSERT_EQ(profile.stages(), 8);
  for (int stage = 0; stage < profile.stages(); ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      ASSERT_EQ(profile.measurements(stage, kind).size(), 81U);
      EXPECT_EQ(profile.measurements(stage, kind).front().clock_mhz, 1410);
      EXPECT_EQ(profile.measurements(stage, kind).back().clock_mhz, 210);
    }
  }
}

TEST(ExampleProfile, TimesFollowTheModel) {
  // t = a + b / f: with x = 1410 / f, equal steps in x are equal steps in t.
  const ExampleGpu gpu;
  const TransformerModel model;
  const double full_s = forward_time_s(gpu, model, 0, 1410);
  const double half_s = forward_time_s(gpu, model, 0, 705);
  const double third_s = forward_time_s(gpu, model, 0, 470);
  EXPECT_NEAR(third_s - half_s, half_s - full_s, 1e-12);
  // By hand for one stage of 12 layers on one of 8 GPUs:
  //   products 12 (24 2048 12288^2 + 4 2048^2 12288) / 8 = 1.14418e13 FLOP at 0.75 x 312 TFLOP/s = 48.8966 ms;
  //   memory 12 x 2 x 2048 x 12288 (10 + 3 + 10) = 1.38915e10 B at 2039 GB/s = 6.813 ms;
  //   links 12 x 2 x 1.75 x 2048 x 12288 x 2 = 2.11394e9 B at 240 GB/s = 8.808 ms.
  EXPECT_NEAR(half_s - full_s, 0.0488966, 1e-6);
  EXPECT_NEAR(full_s, 0.0488966 + 0.006813 + 0.008808, 2e-6);
}

TEST(ExampleProfile, TheHeadMakesTheLastStageHeavier) {
  const ExampleGpu gpu;
  const TransformerModel model;
  EXPECT_EQ(forward_time_s(gpu, model, 0, 1410), forward_time_s(gpu, model, 6, 1410));
  // 2 x 2048 x 12288 x 50257 / 8 = 3.1619e11 FLOP at 0.75 x 312 TFLOP/s.
  EXPECT_NEAR(forward_time_s(gpu, model, 7, 1410) - forward_time_s(gpu, model, 6, 1410), 0.0013512, 1e-6);
  EXPECT_NEAR(backward_time_s(gpu, model, 7, 1410) - backward_time_s(gpu, model, 6, 1410), 0.0027025, 1e-6);
}

TEST(ExampleProfile, PowerIsTheStatedOneAtTheHighestClockAndFallsWithVoltage) {
  const ExampleGpu gpu;
  EXPECT_DOUBLE_EQ(power_w(gpu, 1410), 360);
  EXPECT_DOUBLE_EQ(relative_voltage(gpu, 1410), 1);
  EXPECT_DOUBLE_EQ(relative_voltage(gpu, 810), 0.72);
  EXPECT_DOUBLE_EQ(relative_voltage(gpu, 300), 0.72);
  EXPECT_DOUBLE_EQ(relative_voltage(gpu, 1110), 0.86);
  EXPECT_DOUBLE_EQ(power_w(gpu, 705), 100 + 260 * 0.5 * 0.72 * 0.72);
}

TEST(ExampleProfile, IsWorthPlanning) {
  const std::vector<double> blocking_power_w(8, 75);
  for (const OpProfileSummary& row : summarise(example_profile(), blocking_power_w)) {
    EXPECT_EQ(row.missing_count, 0);
    EXPECT_THAT(row.not_faster_clocks_mhz, ::testing::IsEmpty());
    EXPECT_GT(row.pareto_count, 20);
    EXPECT_LT(row.pareto_count, 81) << "the slowest clocks cost more than they save";
  }
}

TEST(ExampleProfile, IsKnownAgainAfterReadingIt) {
  const StageProfile read =
      read_profile_file(write_profile_file({.profile = example_profile()}), "profile.csv").profile;
  EXPECT_TRUE(is_example_profile(read));
  TransformerModel other;
  other.sequence = 4096;
  EXPECT_FALSE(is_example_profile(modelled_profile(ExampleGpu{}, other)));
  other = {};
  other.stages = 4;
  EXPECT_FALSE(is_example_profile(modelled_profile(ExampleGpu{}, other)));
}

}  // namespace
}  // namespace lowgear::profile
