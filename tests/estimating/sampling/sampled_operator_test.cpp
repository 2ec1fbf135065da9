#include "estimating/sampling/sampled_operator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear::sampling {
namespace {

using ::testing::ElementsAre;

TEST(SampledOperator, IsDescribedInTheOrderOfTheEnumeration) {
  std::set<std::string_view> names;
  for (int i = 0; i < kSampledOperators; ++i) {
    const OperatorDescription& description = describe(static_cast<SampledOperator>(i));
    EXPECT_EQ(static_cast<int>(description.op), i);
    EXPECT_TRUE(names.insert(description.name).second) << description.name;
  }
}

TEST(OperatorsNamed, TakesNamesAndFamiliesOnceInOrder) {
  EXPECT_THAT(operators_named("gelu,norm,layernorm", "--operators"),
              ElementsAre(SampledOperator::layer_norm, SampledOperator::rms_norm, SampledOperator::gelu));
  EXPECT_EQ(operators_named("all", "--operators").size(), static_cast<std::size_t>(kSampledOperators - 3));
  EXPECT_THAT(operators_named("experts", "--operators"),
              ElementsAre(SampledOperator::experts, SampledOperator::gated_experts));
  EXPECT_THAT(operators_named("moe", "--operators"), ElementsAre(SampledOperator::experts));
  EXPECT_THAT(operators_named("stage-optimizer", "--operators"),
              ElementsAre(SampledOperator::first_stage_optimizer, SampledOperator::middle_stage_optimizer,
                          SampledOperator::last_stage_optimizer));
}

TEST(OperatorsNamed, NamesTheNearestWord) {
  EXPECT_EQ(error_of([&] { (void)operators_named("linaer", "--operators"); }),
            "--operators: there is no operator \"linaer\"; did you mean linear?");
  EXPECT_THROW((void)operators_named("", "--operators"), InputError);
  EXPECT_THROW((void)operators_named("gelu,", "--operators"), InputError);
}

TEST(KernelSizes, DivideAsTensorParallelismDoes) {
  const OperatorShape shape = {.tp = 4, .microbatch = 2, .heads = 32, .sequence = 1024, .hidden = 4096};
  EXPECT_THAT(kernel_sizes(SampledOperator::linear_qkv, shape), ElementsAre(2048, 4096, 3072, 1));
  EXPECT_THAT(kernel_sizes(SampledOperator::linear_out, shape), ElementsAre(2048, 1024, 4096, 1));
  EXPECT_THAT(kernel_sizes(SampledOperator::linear_up, shape), ElementsAre(2048, 4096, 4096, 1));
  EXPECT_THAT(kernel_sizes(SampledOperator::linear_down, shape), ElementsAre(2048, 4096, 4096, 1));
  EXPECT_THAT(kernel_sizes(SampledOperator::fused_attention, shape), ElementsAre(2, 1024, 8, 128));
  EXPECT_THAT(kernel_sizes(SampledOperator::attention_scores, shape), ElementsAre(16, 1024, 128, 1));
  EXPECT_THAT(kernel_sizes(SampledOperator::gelu, shape), ElementsAre(2048, 4096, 1, 1));
}

// ceil(50257 / (128 mp)) 128, as the published estimator has it.
TEST(KernelSizes, PadTheVocabularyOnEachRank) {
  EXPECT_EQ(kernel_sizes(SampledOperator::embedding, {.tp = 1, .hidden = 8})[1], 50304);
  EXPECT_EQ(kernel_sizes(SampledOperator::linear_head, {.tp = 2, .hidden = 8})[2], 25216);
  EXPECT_EQ(kernel_sizes(SampledOperator::cross_entropy, {.tp = 8})[1], 6400);
}

TEST(KernelSizes, OfTheOptimizersOfStagesAreParameters) {
  const OperatorShape shape = {.tp = 2, .hidden = 1024, .layers = 3};
  EXPECT_EQ(kernel_sizes(SampledOperator::middle_stage_optimizer, shape)[0], 3 * 12 * 1024 * 1024 / 2);
  const std::int64_t with_vocabulary = 3 * 12 * 1024 * 1024 / 2 + 25216 * 1024;
  EXPECT_EQ(kernel_sizes(SampledOperator::first_stage_optimizer, shape)[0], with_vocabulary);
  EXPECT_EQ(kernel_sizes(SampledOperator::last_stage_optimizer, shape)[0], with_vocabulary);
}

TEST(KernelSizes, OfExpertsAreSharedAmongRanks) {
  const OperatorShape shape = {.tp = 4,
                               .microbatch = 2,
                               .sequence = 1024,
                               .hidden = 4096,
                               .experts = 64,
                               .expert_width = 1536,
                               .experts_per_token = 8};
  EXPECT_THAT(kernel_sizes(SampledOperator::experts, shape), ElementsAre(2048, 4096, 1536, 16, 4, 8));
  EXPECT_EQ(kernel_sizes(SampledOperator::gated_experts, shape), kernel_sizes(SampledOperator::experts, shape));
}

// Two or three matrices for each row, forward and twice as much backward; the router of all experts for each token.
TEST(WorkOf, ExpertsIsThatOfTheirRowsAndTheRouter) {
  const OperatorShape shape = {
      .tp = 2, .sequence = 32, .hidden = 16, .experts = 4, .expert_width = 24, .experts_per_token = 2};
  const double rows = 32 * 2 / 2;
  const double router = 6.0 * 32 * 16 * 4;
  EXPECT_DOUBLE_EQ(work_of(SampledOperator::experts, shape, SampleType::bf16).flops, 6 * rows * 2 * 16 * 24 + router);
  EXPECT_DOUBLE_EQ(work_of(SampledOperator::gated_experts, shape, SampleType::bf16).flops,
                   6 * rows * 3 * 16 * 24 + router);
}

TEST(WorkOf, LinearIsThreeProducts) {
  const SampleWork work =
      work_of(SampledOperator::linear_up, {.microbatch = 2, .sequence = 8, .hidden = 16}, SampleType::bf16);
  EXPECT_DOUBLE_EQ(work.flops, 3 * 2.0 * 16 * 16 * 64);
  EXPECT_DOUBLE_EQ(work.traffic_bytes, 2 * 3.0 * (16 * 16 + 16 * 64 + 16 * 64));
}

TEST(WorkOf, IsAboveZeroForEveryOperatorAndGrowsWithTheType) {
  const OperatorShape shape = {.tp = 1, .microbatch = 1, .heads = 2, .sequence = 4, .hidden = 8, .parameters = 16};
  for (const OperatorDescription& description : sampled_operators()) {
    const SampleWork narrow = work_of(description.op, shape, SampleType::bf16);
    EXPECT_GT(narrow.traffic_bytes, 0) << description.name;
    EXPECT_GT(narrow.footprint_bytes, 0) << description.name;
    if (description.passes == 1) continue;  // its states are fp32 whatever the type
    EXPECT_DOUBLE_EQ(work_of(description.op, shape, SampleType::fp32).traffic_bytes, 2 * narrow.traffic_bytes);
  }
}

TEST(SampleTypes, AreFoundByName) {
  EXPECT_EQ(sample_type("fp16"), SampleType::fp16);
  EXPECT_EQ(sample_type("FP16"), std::nullopt);
  EXPECT_EQ(bytes_of(SampleType::fp32), 4);
}

}  // namespace
}  // namespace lowgear::sampling
