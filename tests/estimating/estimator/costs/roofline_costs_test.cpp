#include "estimating/estimator/costs/roofline_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/core/units.h"
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

/// data/h100-sxm: causal attention of cuDNN, by head size and length; in training it is slower by a tenth.
TEST(RooflineCosts, AttentionDependsOnHeadSizeAndLength) {
  const RooflineCosts costs(named_gpu("h100"));
  const auto time_us = [&](Pass pass, std::int64_t batch, std::int64_t length, std::int64_t heads, std::int64_t width) {
    return 1e6 *
           costs.cost({OperatorKind::fused_attention, pass, {batch, length, heads, width}, DataType::bf16}).time_s();
  };
  EXPECT_NEAR(time_us(Pass::forward, 8, 1024, 96, 128), 1.1 * 434.6, 40);
  EXPECT_NEAR(time_us(Pass::backward, 8, 1024, 96, 128), 1.1 * 1716, 150);
  EXPECT_NEAR(time_us(Pass::forward, 4, 8192, 96, 128), 1.1 * 11335, 1200);
  EXPECT_NEAR(time_us(Pass::backward, 8, 4096, 80, 64), 1.1 * 8753, 1000);
}

TEST(RooflineCosts, AttentionOfAnEarlierGenerationIsSlower) {
  for (const char* gpu : {"a100", "h100"}) {
    const RooflineCosts costs(named_gpu(gpu));
    const auto time_s = [&](AttentionKernel kernel) {
      Operator op{OperatorKind::fused_attention, Pass::backward, {1, 16384, 32, 128}, DataType::bf16};
      op.kernel = kernel;
      return costs.cost(op).time_s();
    };
    EXPECT_LE(time_s(AttentionKernel::newest), time_s(AttentionKernel::flash2)) << gpu;
    EXPECT_LT(time_s(AttentionKernel::flash2), time_s(AttentionKernel::flash1)) << gpu;
  }
}

TEST(RooflineCosts, ANormOfFewColumnsReachesLessOfTheBandwidth) {
  const RooflineCosts costs(named_gpu("h200"));
  const auto time_s = [&](std::int64_t rows, std::int64_t columns) {
    return costs.cost({OperatorKind::layer_norm, Pass::backward, {1, rows, columns, 1}, DataType::bf16}).time_s();
  };
  EXPECT_DOUBLE_EQ(time_s(16384, 4096), time_s(32768, 2048));
  EXPECT_NEAR(time_s(65536, 1024) / time_s(32768, 2048), 1.58, 0.02);
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

constexpr Cluster kCluster{8, {300e9, 3e-6}, {25e9, 14e-6}};

double time_s(CollectiveKind kind, double bytes, RankGroup group) {
  return LinkCosts(kCluster).cost(kind, bytes, group).time_s();
}

TEST(LinkCosts, AGroupOfOneCostsNothing) {
  for (const auto kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::all_to_all}) {
    EXPECT_EQ(time_s(kind, kGiB, {1, 1}), 0);
  }
  EXPECT_EQ(time_s(CollectiveKind::all_reduce, 0, {8, 8}), 0);
}

TEST(LinkCosts, AnAllReduceIsAReduceScatterAndAnAllGather) {
  for (const RankGroup group : {RankGroup{8, 8}, RankGroup{16, 8}, RankGroup{32, 1}}) {
    const double whole_s = time_s(CollectiveKind::all_reduce, kGiB, group);
    const double parts_s =
        time_s(CollectiveKind::reduce_scatter, kGiB, group) + time_s(CollectiveKind::all_gather, kGiB, group);
    EXPECT_LE(whole_s, parts_s);
    EXPECT_GE(whole_s, 0.9 * parts_s);
  }
}

/// Among four H200s (data/h200-sxm): what the shares were taken from, and sizes that they were not taken from.
TEST(LinkCosts, FollowsMeasuredCollectives) {
  const Cluster cluster = default_cluster(named_gpu("h200"));
  const LinkCosts costs(cluster);
  const auto time_us = [&](CollectiveKind kind, double bytes) {
    return 1e6 * costs.cost(kind, bytes, {4, 4}).time_s();
  };
  constexpr double kMiB = 1024.0 * 1024;
  EXPECT_NEAR(time_us(CollectiveKind::all_reduce, 1024), 15, 4);
  EXPECT_NEAR(time_us(CollectiveKind::all_reduce, kMiB), 24, 4);
  EXPECT_NEAR(time_us(CollectiveKind::all_reduce, 16 * kMiB), 99, 20);
  EXPECT_NEAR(time_us(CollectiveKind::all_reduce, 1024 * kMiB), 4563, 200);
  EXPECT_NEAR(time_us(CollectiveKind::all_gather, 64 * kMiB), 191, 20);
  EXPECT_NEAR(time_us(CollectiveKind::reduce_scatter, 1024 * kMiB), 2513, 100);
}

TEST(LinkCosts, ReachesTheBusBandwidthOfTheSlowestLink) {
  const auto bus_bytes_per_s = [](RankGroup group) {
    const double passed = 2 * kGiB * (group.ranks - 1) / group.ranks;
    return passed / time_s(CollectiveKind::all_reduce, kGiB, group);
  };
  EXPECT_NEAR(bus_bytes_per_s({8, 8}), 0.78 * 300e9, 2e9);
  EXPECT_NEAR(bus_bytes_per_s({32, 1}), 0.92 * 25e9, 1e9);
  // Four GPUs of each node share four adapters.
  EXPECT_NEAR(bus_bytes_per_s({32, 4}), 4 * 0.92 * 25e9, 4e9);
}

TEST(LinkCosts, SmallMessagesTakeTreesAcrossManyNodes) {
  const double few_s = time_s(CollectiveKind::all_reduce, 1024, {2, 1});
  const double many_s = time_s(CollectiveKind::all_reduce, 1024, {512, 1});
  EXPECT_LT(many_s, 15 * few_s);  // 9 levels; a ring would take 511 times as many steps
}

/// vTrain's table of all-reduces among A100s of a node (trace/a100, in place).
TEST(LinkCosts, FollowsAllReducesAmongA100s) {
  const LinkCosts costs(default_cluster(named_gpu("a100")));
  constexpr double kMiB = 1024.0 * 1024;
  const auto time_us = [&](double bytes, int ranks) {
    return 1e6 * costs.cost(CollectiveKind::all_reduce, bytes, {ranks, ranks}).time_s();
  };
  EXPECT_NEAR(time_us(8 * kMiB, 8), 130, 20);
  EXPECT_NEAR(time_us(32 * kMiB, 8), 356, 40);
  EXPECT_NEAR(time_us(1024 * kMiB, 8), 8196, 400);
  EXPECT_NEAR(time_us(32 * kMiB, 4), 282, 40);
}

TEST(LinkCosts, NodesSeparateNeighbours) {
  EXPECT_GT(time_s(CollectiveKind::send, kGiB, {2, 1}), 5 * time_s(CollectiveKind::send, kGiB, {2, 2}));
  EXPECT_GT(time_s(CollectiveKind::all_to_all, kGiB, {16, 8}), time_s(CollectiveKind::all_to_all, kGiB, {8, 8}));
}

TEST(LinkCosts, CountsWhatAGpuSends) {
  const LinkCosts costs(kCluster);
  EXPECT_DOUBLE_EQ(costs.cost(CollectiveKind::all_reduce, 800, {8, 8}).link_bytes, 1400);
  EXPECT_DOUBLE_EQ(costs.cost(CollectiveKind::all_gather, 800, {8, 8}).link_bytes, 700);
  EXPECT_DOUBLE_EQ(costs.cost(CollectiveKind::send, 800, {2, 2}).link_bytes, 800);
}

}  // namespace

}  // namespace lowgear::estimator
