#include "estimating/sampling/sampling_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear::sampling {
namespace {

using ::testing::HasSubstr;

OperatorGrid tiny_grid() {
  return {.hidden = {64, 128},
          .tp = {1, 2},
          .microbatch = {1, 2},
          .sequence = {16, 32},
          .head_dim = {32},
          .parameters = {100, 200},
          .layers = {2},
          .experts = {2, 8},
          .expert_width = {32},
          .experts_per_token = {1, 2}};
}

TEST(PlanSamples, HasEveryOperatorWithinBounds) {
  const SampleBounds bounds;
  std::size_t total = 0;
  for (const OperatorDescription& description : sampled_operators()) {
    const auto plan = plan_samples(description.op, SampleType::bf16, default_grid(), 2);
    EXPECT_GE(plan.size(), 8U) << description.name;
    EXPECT_LE(plan.size(), 500U) << description.name;
    total += plan.size();
    for (const PlannedSample& sample : plan) {
      const SampleWork work = work_of(description.op, sample.shape, SampleType::bf16);
      EXPECT_LE(work.flops, bounds.flops);
      EXPECT_LE(work.footprint_bytes, bounds.footprint_bytes);
    }
  }
  EXPECT_LE(total, 4000U);
}

TEST(PlanSamples, HasEachSetOfKernelSizesOnce) {
  for (const OperatorDescription& description : sampled_operators()) {
    std::set<KernelSizes> known;
    for (const PlannedSample& sample : plan_samples(description.op, SampleType::bf16, default_grid(), 0)) {
      EXPECT_TRUE(known.insert(kernel_sizes(description.op, sample.shape)).second) << description.name;
    }
  }
}

// Against counting by hand: 2 hidden x 2 tp; tokens 16, 32 (twice), 64.
TEST(PlanSamples, CoversTheGrid) {
  EXPECT_EQ(plan_samples(SampledOperator::linear_qkv, SampleType::fp32, tiny_grid(), 0).size(), 2U * 2 * 3);
  EXPECT_EQ(plan_samples(SampledOperator::rms_norm, SampleType::fp32, tiny_grid(), 0).size(), 2U * 3);
  // Heads on a rank: 2 or 1 of 64, 4 or 2 of 128: three in all; batches and sequences count by themselves.
  EXPECT_EQ(plan_samples(SampledOperator::fused_attention, SampleType::fp32, tiny_grid(), 0).size(), 3U * 2 * 2);
  EXPECT_EQ(plan_samples(SampledOperator::cross_entropy, SampleType::fp32, tiny_grid(), 0).size(), 2U * 3);
  EXPECT_EQ(plan_samples(SampledOperator::optimizer, SampleType::fp32, tiny_grid(), 0).size(), 2U);
  // Of two experts a rank of two has one, which is too few for tokens that use two.
  EXPECT_EQ(plan_samples(SampledOperator::experts, SampleType::fp32, tiny_grid(), 0).size(), 2U * 3 * (4 + 3));
}

TEST(PlanSamples, TakesNumbersOfHeads) {
  OperatorGrid grid = tiny_grid();
  grid.heads = {2, 3, 8};
  std::set<std::pair<std::int64_t, std::int64_t>> heads_and_hidden;
  for (const PlannedSample& sample : plan_samples(SampledOperator::fused_attention, SampleType::fp32, grid, 0)) {
    heads_and_hidden.emplace(sample.shape.heads, sample.shape.hidden);
  }
  EXPECT_EQ(heads_and_hidden, (std::set<std::pair<std::int64_t, std::int64_t>>{{2, 64}, {2, 128}, {8, 64}, {8, 128}}));
  // Scores have no width that heads must divide; 3 heads are not for two ranks. Ranks have 1, 2, 3, 4 or 8, in batches
  // of one and two 1, 2, 3, 4, 6, 8 or 16.
  EXPECT_EQ(plan_samples(SampledOperator::softmax, SampleType::fp32, grid, 0).size(), 7U * 2);
  EXPECT_EQ(plan_samples(SampledOperator::gelu, SampleType::fp32, grid, 0),
            plan_samples(SampledOperator::gelu, SampleType::fp32, tiny_grid(), 0));
}

TEST(PlanSamples, LeavesOutWhatDoesNotDivide) {
  OperatorGrid grid = tiny_grid();
  grid.tp = {3};
  EXPECT_TRUE(plan_samples(SampledOperator::linear_out, SampleType::bf16, grid, 0).empty());
  EXPECT_TRUE(plan_samples(SampledOperator::fused_attention, SampleType::bf16, grid, 0).empty());
  grid = tiny_grid();
  grid.head_dim = {48};
  EXPECT_TRUE(plan_samples(SampledOperator::softmax, SampleType::bf16, grid, 0).empty());
  grid.experts = {3};
  grid.tp = {2};
  EXPECT_TRUE(plan_samples(SampledOperator::gated_experts, SampleType::bf16, grid, 0).empty());
}

TEST(PlanSamples, LeavesOutWhatIsBeyondTheBounds) {
  const auto plan =
      plan_samples(SampledOperator::linear_up, SampleType::bf16, tiny_grid(), 0, {.flops = 6.0 * 16 * 64 * 256});
  ASSERT_EQ(plan.size(), 3U);  // tp 1 with 16 tokens, tp 2 with 16 and 32
  for (const PlannedSample& sample : plan) EXPECT_EQ(sample.shape.hidden, 64);
}

TEST(PlanSamples, AnyBeginningCoversTheWhole) {
  const auto plan = plan_samples(SampledOperator::linear_qkv, SampleType::bf16, default_grid(), 0);
  std::set<std::int64_t> hidden;
  for (std::size_t i = 0; i < plan.size() / 8; ++i) hidden.insert(plan[i].shape.hidden);
  EXPECT_GE(hidden.size(), 4U);
  EXPECT_EQ(plan, plan_samples(SampledOperator::linear_qkv, SampleType::bf16, default_grid(), 0));
}

TEST(PlanSamples, MarksEnergyWhereRunsAreLong) {
  const auto plan = plan_samples(SampledOperator::linear_qkv, SampleType::bf16, default_grid(), 3);
  EXPECT_EQ(std::ranges::count(plan, true, &PlannedSample::energy), 3);
  for (const PlannedSample& sample : plan) {
    if (!sample.energy) continue;
    EXPECT_GT(work_of(SampledOperator::linear_qkv, sample.shape, SampleType::bf16).flops, 1e11);
  }
  const auto tiny = plan_samples(SampledOperator::linear_qkv, SampleType::bf16, tiny_grid(), 3);
  EXPECT_EQ(std::ranges::count(tiny, true, &PlannedSample::energy), 0);
}

TEST(PlanSamples, RefusesGridsThatAreNone) {
  OperatorGrid grid = tiny_grid();
  grid.sequence = {};
  EXPECT_THROW((void)plan_samples(SampledOperator::gelu, SampleType::bf16, grid, 0), InputError);
  grid.sequence = std::vector<std::int64_t>(129, 16);
  EXPECT_THROW(require_valid(grid), InputError);
  grid.sequence = {0};
  EXPECT_THAT(error_of([&] { require_valid(grid); }), HasSubstr("--seq: 0 is not in 1 to "));
}

TEST(PlanSamples, RefusesGridsOfTooManyCombinations) {
  OperatorGrid grid = tiny_grid();
  for (auto* const values : {&grid.hidden, &grid.sequence, &grid.experts, &grid.expert_width}) {
    values->assign(100, 64);
  }
  EXPECT_THAT(error_of([&] { (void)plan_samples(SampledOperator::experts, SampleType::bf16, grid, 0); }),
              HasSubstr("moe: 8e+08 combinations of sizes; give fewer values"));
}

TEST(PartOf, PartsAreDisjointAndMakeTheWhole) {
  const auto plan = plan_samples(SampledOperator::rotary, SampleType::bf16, default_grid(), 0);
  std::size_t rows = 0;
  std::set<KernelSizes> known;
  for (int index = 1; index <= 3; ++index) {
    for (const PlannedSample& sample : part_of<PlannedSample>(plan, {.index = index, .count = 3})) {
      known.insert(kernel_sizes(SampledOperator::rotary, sample.shape));
      ++rows;
    }
  }
  EXPECT_EQ(rows, plan.size());
  EXPECT_EQ(known.size(), plan.size());
}

TEST(PlanMessages, ArePowersOfTwoOfTheWholeMessage) {
  const auto plan = plan_messages(SampledCollective::all_reduce, SampleType::bf16, 2, {}, 2);
  ASSERT_EQ(plan.size(), 21U);
  EXPECT_EQ(plan.front().elements, 512);
  EXPECT_EQ(plan.back().elements, (std::int64_t{1} << 30) / 2);
  EXPECT_TRUE(plan.back().energy);
  EXPECT_TRUE(plan[16].energy);
  EXPECT_EQ(std::ranges::count(plan, true, &PlannedMessage::energy), 2);
}

TEST(PlanMessages, SharesAreWhatEachRankHas) {
  const auto plan =
      plan_messages(SampledCollective::all_gather, SampleType::fp32, 4, {.smallest = 64, .largest = 128}, 0);
  ASSERT_EQ(plan.size(), 2U);
  EXPECT_EQ(plan[0].elements, 4);
  EXPECT_EQ(plan[1].elements, 8);
}

TEST(CollectivesNamed, NamesTheNearestWord) {
  EXPECT_EQ(collectives_named("p2p,allreduce", "--collectives"),
            (std::vector{SampledCollective::all_reduce, SampledCollective::send}));
  EXPECT_THAT(error_of([&] { (void)collectives_named("all_reduce", "--collectives"); }),
              HasSubstr("did you mean allreduce?"));
}

}  // namespace
}  // namespace lowgear::sampling
