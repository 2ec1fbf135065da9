#include "estimating/curve/curve_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear::curve {
namespace {

using testing::HasSubstr;

const CurveSample kSample{.load = {.product_sms = 66,
                                   .type = ProductType::fp8,
                                   .data = ProductData::bits,
                                   .adds = true,
                                   .reads = 8,
                                   .stream_sms = 16,
                                   .cached = true},
                          .begin_s = 12.5,
                          .time_s = 2.25,
                          .energy_j = 1500,
                          .energy_error_j = 2,
                          .clock_mhz = 1412.5,
                          .lowest_clock_mhz = 1395,
                          .highest_clock_mhz = 1425,
                          .memory_clock_mhz = 3201,
                          .temperature_c = 61.5,
                          .capped_s = 2.25,
                          .thermal_s = 0,
                          .limit_w = 700,
                          .operations = 2.5e15,
                          .bytes = 1e12,
                          .cache_bytes = 3e12};

TEST(CurveSample, IsReadAsItWasWritten) {
  const auto samples = parse_curve_samples(curve_header() + curve_row(kSample), "curve.csv");
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_EQ(samples[0].load, kSample.load);
  EXPECT_EQ(samples[0].clock_mhz, 1412.5);
  EXPECT_EQ(samples[0].operations, 2.5e15);
  EXPECT_EQ(samples[0].cache_bytes, 3e12);
  EXPECT_EQ(samples[0].limit_w, 700);
  EXPECT_NEAR(samples[0].power_w(), 666.67, 0.01);
  EXPECT_EQ(describe(kSample.load), "fp8 bits + adds + 8/16 reads on 66 SMs, cached stream on 16");
  EXPECT_EQ(describe(CurveLoad{}), "idle");
}

TEST(CurveSample, RefusesWhatIsNoSampleAtItsCell) {
  const auto error = [](std::string_view from, std::string_view to) {
    std::string text = curve_header() + curve_row(kSample);
    text.replace(text.find(from), from.size(), to);
    return error_of([&] { (void)parse_curve_samples(text, "curve.csv"); });
  };
  EXPECT_THAT(error("66,fp8", "66,fp9"), HasSubstr("curve.csv:2:4: fp9 is not a known word"));
  EXPECT_THAT(error("66,fp8", "-1,fp8"), HasSubstr("not negative"));
  EXPECT_THAT(error("2.2500", "0"), HasSubstr("time_s is above 0"));
  EXPECT_THAT(error(",type", ",kind"), HasSubstr("type"));
  EXPECT_THAT(error("bits,1,8", "bits,1,17"), HasSubstr("curve.csv:2:15: reads are 0 to 16"));
}

TEST(CurvePlan, HasEveryLoadInEveryRoundInAnotherOrder) {
  const std::vector<ProductType> types = {ProductType::bf16, ProductType::fp8};
  const auto once = plan_curve(132, types, 1);
  const auto twice = plan_curve(132, types, 2);
  ASSERT_EQ(twice.size(), 2 * once.size());
  const auto count = static_cast<std::ptrdiff_t>(once.size());
  EXPECT_TRUE(std::equal(once.begin(), once.end(), twice.begin()));
  EXPECT_FALSE(std::equal(once.begin(), once.end(), twice.begin() + count));
  EXPECT_TRUE(std::is_permutation(once.begin(), once.end(), twice.begin() + count, twice.end()));
}

TEST(CurvePlan, BeginsWithTheLowestClocks) {
  const std::vector<ProductType> types = {ProductType::fp8, ProductType::bf16, ProductType::tf32};
  const auto plan = plan_curve(132, types, 2);
  EXPECT_EQ(plan.front(), (CurveLoad{.product_sms = 132, .type = ProductType::fp8, .reads = 14}));
  EXPECT_EQ(plan[1], (CurveLoad{.product_sms = 132, .type = ProductType::bf16, .reads = 14}));
  // All that reach them, then none in this round; the second round mixes them with the rest.
  const auto is_low = [](const CurveLoad& load) { return load.product_sms == 132 && load.reads >= 6; };
  const auto rest = std::find_if_not(plan.begin(), plan.end(), is_low);
  const auto round = plan.begin() + static_cast<std::ptrdiff_t>(plan.size() / 2);
  EXPECT_EQ(rest - plan.begin(), 10);
  EXPECT_TRUE(std::is_sorted(plan.begin(), rest, [](const auto& a, const auto& b) { return a.reads > b.reads; }));
  EXPECT_TRUE(std::none_of(rest, round, is_low));
  EXPECT_EQ(std::count_if(round, plan.end(), is_low), 10);
  EXPECT_FALSE(std::all_of(round, round + 10, is_low));
}

TEST(CurvePlan, FitsEveryGpu) {
  const std::vector<ProductType> types = {ProductType::bf16, ProductType::fp8, ProductType::tf32};
  for (const int multiprocessors : {1, 10, 84, 108, 132, 148}) {
    for (const CurveLoad& load : plan_curve(multiprocessors, types, 1)) {
      EXPECT_LE(load.product_sms + load.stream_sms, multiprocessors) << describe(load);
    }
  }
}

}  // namespace
}  // namespace lowgear::curve
