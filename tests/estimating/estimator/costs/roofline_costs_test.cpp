#include "estimating/estimator/costs/roofline_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "estimating/estimator/costs/operator_samples.h"
#include "planning/simulator/shared_data.h"

namespace lowgear::estimator {
namespace {

Operator linear(std::int64_t tokens, std::int64_t inputs, std::int64_t outputs) {
  return {OperatorKind::linear, Pass::forward, {tokens, inputs, outputs, 1}, DataType::bf16};
}

class EveryGpu : public testing::TestWithParam<std::string> {};

TEST_P(EveryGpu, IsNeverFasterThanItsDataSheet) {
  const GpuModel gpu = named_gpu(GetParam());
  const RooflineCosts costs(gpu);
  for (const std::int64_t size : {64, 1000, 8192}) {
    Operator op = linear(size, size, size);
    op.dtype = DataType::fp16;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      op.pass = pass;
      EXPECT_GE(costs.cost(op).time_s(),
                std::max(flops(op) / gpu.fp16_flops, memory_bytes(op) / gpu.memory_bytes_per_s));
      EXPECT_EQ(costs.cost(op).link_s, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(RooflineCosts, EveryGpu, testing::ValuesIn(gpu_names()));

TEST(RooflineCosts, ALargeProductIsLimitedByCoresAndATallOneByMemory) {
  const RooflineCosts costs(named_gpu("a100"));
  const WorkCost large = costs.cost(linear(8192, 8192, 8192));
  EXPECT_GT(large.core_s, 100 * large.memory_s);
  const WorkCost tall = costs.cost(linear(1 << 20, 1024, 16));
  EXPECT_EQ(tall.core_s, 0);
}

/// One tile more than the multiprocessors take at a time costs another wave.
TEST(RooflineCosts, TilesRunInWaves) {
  const GpuModel gpu = named_gpu("a100");
  const RooflineCosts costs(gpu);
  constexpr std::int64_t kColumns =
      13824;  // 54 x 256; with 256 rows: 108 tiles of 128 x 256, as many as multiprocessors
  const double one_wave_s = costs.cost(linear(256, 4096, kColumns)).time_s();
  const double two_waves_s = costs.cost(linear(256, 4096, kColumns + 2560)).time_s();
  EXPECT_GT(two_waves_s, 1.3 * one_wave_s);
  EXPECT_NEAR(costs.cost(linear(512, 4096, kColumns)).core_s, 2 * costs.cost(linear(256, 4096, kColumns)).core_s,
              1e-12);
}

TEST(RooflineCosts, CountsTensorFlopsOfProductsAlone) {
  const RooflineCosts costs(named_gpu("h100"));
  EXPECT_DOUBLE_EQ(costs.cost(linear(64, 64, 64)).flops, 2.0 * 64 * 64 * 64);
  EXPECT_EQ(costs.cost({OperatorKind::gelu, Pass::forward, {1, 64, 64, 1}, DataType::bf16}).flops, 0);
}

/// Products of the samples that matmul_peak of the A100 was taken from: what the tile model adds to one number.
TEST(RooflineCosts, FollowsSampledProductsOfAnA100) {
  const std::string file = "operators/perlmutter/operator/NVIDIAA100-SXM4-80GB_linear3_fp16.csv";
  const auto text = simulator::read_shared(file);
  if (!text) GTEST_SKIP() << simulator::kNoSharedData;
  const SampledFunction& function = *find_sampled_function("linear3");
  const OperatorSamples samples = parse_operator_samples(*text, file, function, DataType::fp16);
  const RooflineCosts costs(named_gpu("a100"));
  std::vector<double> errors;
  for (const OperatorSample& row : samples.rows) {
    const auto op = operator_of(function, row.shape, Pass::forward, DataType::fp16);
    if (op) errors.push_back(std::abs(costs.cost(*op).time_s() / row.forward_s - 1));
  }
  ASSERT_GT(errors.size(), 1000U);
  std::ranges::sort(errors);
  EXPECT_LT(errors[errors.size() / 2], 0.06);
  EXPECT_LT(errors[errors.size() * 9 / 10], 0.15);
}

/// cuDNN on an H200, 64 heads of 4096 tokens: what dropout adds to causal attention.
TEST(RooflineCosts, DropoutInFusedAttentionTakesCycles) {
  const RooflineCosts costs(named_gpu("h200"));
  const auto added_us = [&](Pass pass) {
    return 1e6 * costs.cost({OperatorKind::fused_dropout, pass, {4, 16, 4096, 4096}, DataType::bf16}).time_s();
  };
  EXPECT_NEAR(added_us(Pass::forward), 502, 10);
  EXPECT_NEAR(added_us(Pass::backward), 300, 10);
}

}  // namespace
}  // namespace lowgear::estimator
