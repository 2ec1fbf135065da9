#include "estimating/estimator/costs/operator_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <vector>

#include "base/core/error_of.h"
#include "estimating/sampling/sample_csv.h"

namespace lowgear::estimator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of_samples(const std::string& function, const std::string& csv) {
  return error_of(
      [&] { (void)parse_operator_samples(csv, "s.csv", *find_sampled_function(function), DataType::fp16); });
}

std::vector<std::int64_t> dims_of(const std::string& function, const SampledShape& shape) {
  const std::optional<Operator> op =
      operator_of(*find_sampled_function(function), shape, Pass::forward, DataType::fp16);
  return op ? std::vector<std::int64_t>(std::begin(op->dims), std::end(op->dims)) : std::vector<std::int64_t>{};
}

TEST(SampleFileNames, SayGpuFunctionAndType) {
  EXPECT_EQ(parse_sample_file_name("NVIDIAA100-SXM4-80GB_parallel_cross_entropy_128_fp16.csv"),
            (SampleFileName{"NVIDIAA100-SXM4-80GB", "parallel_cross_entropy_128", DataType::fp16, std::nullopt}));
  EXPECT_EQ(parse_sample_file_name("NVIDIAH10080GBHBM3_flash_atten_bf16.csv"),
            (SampleFileName{"NVIDIAH10080GBHBM3", "flash_atten", DataType::bf16, std::nullopt}));
}

TEST(SampleFileNames, SayTheGroupOfACollective) {
  EXPECT_EQ(parse_sample_file_name("NVIDIAGH200120GB_allreduce_large_fp16_8_1.csv"),
            (SampleFileName{"NVIDIAGH200120GB", "allreduce_large", DataType::fp16, RankGroup{8, 1}}));
  EXPECT_EQ(parse_sample_file_name("X_allreduce_bf16_2_4.csv")->group, (RankGroup{8, 4}));
}

TEST(SampleFileNames, LeaveOutTheMachinesPart) {
  EXPECT_EQ(parse_sample_file_name("X_linear1_bf16_part2of4.csv"),
            (SampleFileName{"X", "linear1", DataType::bf16, std::nullopt}));
}

TEST(SampleFileNames, OfOtherFilesAreNone) {
  for (const char* const name : {"NVIDIAGH200120GB.csv", "notes.txt", "_fp16.csv", "X_fp16.csv", "X_linear1_int8.csv",
                                 "X_linear1.csv", "X_p2p_fp16_0_1.csv", "X_p2p_fp16_65536_65536.csv", ".csv", ""}) {
    EXPECT_EQ(parse_sample_file_name(name), std::nullopt) << name;
  }
}

TEST(OperatorSamples, AreReadInAnyOrderOfColumnsAndWithOthersBesideThem) {
  const OperatorSamples samples =
      parse_operator_samples("b,F_dur(us),l,B_dur(us),note,dim\n4.0,742.0,1536.0,2385.4,x,3072\n8,1,2,3,y,5\n", "s.csv",
                             *find_sampled_function("layernorm"), DataType::bf16);
  ASSERT_EQ(samples.rows.size(), 2U);
  EXPECT_EQ(samples.rows[0].shape, (SampledShape{.batch = 4, .sequence = 1536, .hidden = 3072}));
  EXPECT_DOUBLE_EQ(samples.rows[0].forward_s, 742.0e-6);
  EXPECT_DOUBLE_EQ(samples.rows[0].backward_s, 2385.4e-6);
  EXPECT_EQ(samples.rows[1].line, 3);
  EXPECT_EQ(samples.dtype, DataType::bf16);
}

TEST(OperatorSamples, OfOptimizersHaveOneTime) {
  const OperatorSamples published =
      parse_operator_samples("mp,dim,encoders,dur(us)\n2,2048,11,17808.6\n", "s.csv",
                             *find_sampled_function("middleStage_optimizer"), DataType::fp16);
  EXPECT_DOUBLE_EQ(published.rows[0].forward_s, 17808.6e-6);
  EXPECT_THAT(dims_of("middleStage_optimizer", published.rows[0].shape),
              ElementsAre(11LL * 12 * 2048 * 2048 / 2, 1, 1, 1));
  const OperatorSamples own = parse_operator_samples("params,dur(us),spread(us)\n1048576,12,1\n", "s.csv",
                                                     *find_sampled_function("optimizer"), DataType::bf16);
  EXPECT_THAT(dims_of("optimizer", own.rows[0].shape), ElementsAre(1048576, 1, 1, 1));
}

TEST(OperatorSamples, OfExpertsAreAShareOfThemAndOfTheirRows) {
  const std::string csv =
      "mp,b,l,dim,moe_num_experts,intermediate_size,top_k,F_dur(us),B_dur(us)\n4,2,1024,4096,64,1536,8,800,1700\n";
  const SampledFunction& function = *find_sampled_function("gated_moe");
  const OperatorSamples samples = parse_operator_samples(csv, "s.csv", function, DataType::bf16);
  const Operator op = *operator_of(function, samples.rows.at(0).shape, Pass::backward, DataType::bf16);
  EXPECT_EQ(op.kind, OperatorKind::gated_experts);
  EXPECT_THAT(op.dims, ElementsAre(2048, 4096, 1536, 16));
  EXPECT_EQ(op.rows, 2048 * 8 / 4);
  EXPECT_EQ(find_sampled_function("moe")->kind, OperatorKind::experts);
}

TEST(OperatorSamples, OfEveryOperatorAreReadAsTheSamplerWritesThem) {
  for (const sampling::OperatorDescription& description : sampling::sampled_operators()) {
    const sampling::SampleFormat format = sampling::SampleFormat::of(description.op);
    const auto plan = plan_samples(description.op, sampling::SampleType::bf16, sampling::quick_grid(), 0);
    ASSERT_FALSE(plan.empty()) << description.name;
    std::string csv = format.header();
    for (const sampling::PlannedSample& point : plan) {
      const sampling::PassSample pass{.duration_us = 5, .spread_us = 1, .repeats = 3, .clock_mhz = {}, .energy = {}};
      csv += format.row({.shape = shape_cells(description.op, point.shape),
                         .passes = std::vector(static_cast<std::size_t>(description.passes), pass)});
    }
    const SampledFunction* const function = find_sampled_function(description.name);
    ASSERT_NE(function, nullptr) << description.name;
    const OperatorSamples samples = parse_operator_samples(csv, "s.csv", *function, DataType::bf16);
    ASSERT_EQ(samples.rows.size(), plan.size());
    for (std::size_t i = 0; i < plan.size(); ++i) {
      const SampledShape& shape = samples.rows[i].shape;
      const bool has_experts = shape.experts > 0;
      EXPECT_EQ(shape.experts, has_experts ? plan[i].shape.experts : 0);
      EXPECT_EQ(shape.expert_width, has_experts ? plan[i].shape.expert_width : 0);
      EXPECT_EQ(shape.experts_per_token, has_experts ? plan[i].shape.experts_per_token : 0);
      EXPECT_EQ(shape.hidden, shape.hidden > 0 ? plan[i].shape.hidden : 0);
    }
  }
}

TEST(OperatorSamples, OfExpertsThatCannotBeAreRefused) {
  const std::string header = "mp,b,l,dim,moe_num_experts,intermediate_size,top_k,F_dur(us),B_dur(us)\n";
  for (const char* const row : {"4,2,1024,4096,6,1536,2,8,17\n", "1,2,1024,4096,4,1536,8,8,17\n"}) {
    EXPECT_THAT(error_of_samples("moe", header + row),
                HasSubstr("s.csv:2: ranks (mp) do not divide the shape, or top_k is above the experts"));
  }
  EXPECT_THAT(error_of_samples("moe", "mp,b,l,dim,F_dur(us),B_dur(us)\n1,2,3,4,5,6\n"),
              HasSubstr("there is no column \"moe_num_experts\""));
}

TEST(OperatorSamples, OfAttentionAreCausalWhenTheyHaveOwnColumns) {
  const SampledFunction& flash = *find_sampled_function("flash_atten");
  EXPECT_TRUE(parse_operator_samples("mp,b,h,l,dim,F_dur(us),B_dur(us)\n1,4,16,1536,3072,742,2385\n", "s.csv", flash,
                                     DataType::fp16)
                  .uncausal);
  EXPECT_FALSE(parse_operator_samples("mp,b,h,l,dim,F_dur(us),B_dur(us),F_spread(us)\n1,4,16,1536,3072,742,2385,1\n",
                                      "s.csv", flash, DataType::bf16)
                   .uncausal);
}

TEST(OperatorSamples, StandForWhatOneRankRuns) {
  const SampledShape shape{.ranks = 2, .batch = 4, .heads = 32, .sequence = 1024, .hidden = 4096};
  SampledShape without_heads = shape;
  without_heads.heads = 0;
  EXPECT_THAT(dims_of("linear1", without_heads), ElementsAre(4096, 4096, 6144, 1));
  EXPECT_THAT(dims_of("linear2", without_heads), ElementsAre(4096, 2048, 4096, 1));
  EXPECT_THAT(dims_of("linear3", without_heads), ElementsAre(4096, 4096, 8192, 1));
  EXPECT_THAT(dims_of("linear4", without_heads), ElementsAre(4096, 8192, 4096, 1));
  EXPECT_THAT(dims_of("linear_final", without_heads), ElementsAre(4096, 4096, 25216, 1));
  EXPECT_THAT(dims_of("embedding", without_heads), ElementsAre(4096, 25216, 4096, 1));
  EXPECT_THAT(dims_of("RoPE", shape), ElementsAre(4, 1024, 32, 128));
  EXPECT_THAT(dims_of("baddbmm", shape), ElementsAre(64, 1024, 128, 1024));
  EXPECT_THAT(dims_of("bmm", shape), ElementsAre(64, 1024, 1024, 128));
  EXPECT_THAT(dims_of("flash_atten", shape), ElementsAre(4, 1024, 16, 128));
  EXPECT_THAT(dims_of("softmax", shape), ElementsAre(4, 16, 1024, 1024));
  EXPECT_THAT(dims_of("gelu", without_heads), ElementsAre(4, 1024, 8192, 1));
  EXPECT_THAT(dims_of("parallel_cross_entropy_128", without_heads), ElementsAre(4, 1024, 25216, 1));
}

TEST(OperatorSamples, WithoutAColumnAreRefusedAtTheHeader) {
  EXPECT_THAT(error_of_samples("linear1", "mp,b,l,F_dur(us),B_dur(us)\n1,2,3,4,5\n"),
              AllOf(StartsWith("s.csv:1"), HasSubstr("no column \"dim\""), HasSubstr("\"mp\"")));
  EXPECT_THAT(error_of_samples("linear1", "mp,b,l,dim,dur(us)\n1,2,3,4,5\n"), HasSubstr("no column \"F_dur(us)\""));
}

TEST(OperatorSamples, WithoutRowsAreRefused) {
  EXPECT_THAT(error_of_samples("linear1", "mp,b,l,dim,F_dur(us),B_dur(us)\n"),
              AllOf(StartsWith("s.csv: has no samples"), HasSubstr("sample again")));
  EXPECT_THAT(error_of_samples("linear1", ""), StartsWith("s.csv: is empty"));
}

TEST(OperatorSamples, ThatCannotHaveBeenMeasuredAreRefusedAtTheirCell) {
  const std::string header = "mp,b,l,dim,F_dur(us),B_dur(us)\n";
  EXPECT_THAT(error_of_samples("linear1", header + "1,2,3,4,5,0\n"),
              AllOf(StartsWith("s.csv:2:11: a time of 0 us"), HasSubstr("remove the row")));
  EXPECT_THAT(error_of_samples("linear1", header + "1,2,3,4,-5,1\n"), StartsWith("s.csv:2:9: a time of -5 us"));
  EXPECT_THAT(error_of_samples("linear1", header + "1,2,3,4,1e30,1\n"), StartsWith("s.csv:2:9: a time of"));
  EXPECT_THAT(error_of_samples("linear1", header + "1,0,3,4,1,1\n"), StartsWith("s.csv:2:3: a shape of 0"));
  EXPECT_THAT(error_of_samples("linear1", header + "1,2.5,3,4,1,1\n"), HasSubstr("expected a whole number"));
  EXPECT_THAT(error_of_samples("linear1", header + "1,2,3,9007199254740992,1,1\n"), HasSubstr("is not in 1 to"));
  EXPECT_THAT(error_of_samples("linear1", header + "3,2,3,4,1,1\n"),
              AllOf(StartsWith("s.csv:2: "), HasSubstr("do not divide")));
}

TEST(CollectiveSamples, SayGroupAndBytes) {
  const CollectiveSamples samples =
      parse_collective_samples("shape,nodes,GPUsPerNode,dur(us)\n134217728.0,2.0,4.0,110918.6\n", "c.csv",
                               CollectiveKind::all_gather, DataType::fp16);
  ASSERT_EQ(samples.rows.size(), 1U);
  EXPECT_EQ(samples.rows[0].group, (RankGroup{8, 4}));
  EXPECT_DOUBLE_EQ(samples.rows[0].time_s, 0.1109186);
  EXPECT_DOUBLE_EQ(message_bytes(CollectiveKind::all_gather, samples.rows[0], DataType::fp16), 8 * 2 * 134217728.0);
  EXPECT_DOUBLE_EQ(message_bytes(CollectiveKind::reduce_scatter, samples.rows[0], DataType::fp16), 8 * 2 * 134217728.0);
  EXPECT_DOUBLE_EQ(message_bytes(CollectiveKind::all_reduce, samples.rows[0], DataType::fp16), 2 * 134217728.0);
}

TEST(CollectiveSamples, OfOneRankAreRefused) {
  const std::string csv = "shape,nodes,GPUsPerNode,dur(us)\n8,1,1,5\n";
  EXPECT_THAT(
      error_of([&] { (void)parse_collective_samples(csv, "c.csv", CollectiveKind::all_reduce, DataType::fp16); }),
      HasSubstr("c.csv:2:3: a collective of one rank"));
}

TEST(CollectiveSamples, AreKnownByTheirFunction) {
  EXPECT_EQ(sampled_collective("allreduce_large"), CollectiveKind::all_reduce);
  EXPECT_EQ(sampled_collective("allgather"), CollectiveKind::all_gather);
  EXPECT_EQ(sampled_collective("reduce_scatter"), CollectiveKind::reduce_scatter);
  EXPECT_EQ(sampled_collective("p2p"), CollectiveKind::send);
  EXPECT_EQ(sampled_collective("linear1"), std::nullopt);
}

}  // namespace
}  // namespace lowgear::estimator
