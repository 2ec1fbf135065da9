#include "estimating/sampling/sample_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/formats/csv.h"

namespace lowgear::sampling {
namespace {

using ::testing::StartsWith;

using Plan = std::vector<std::vector<std::int64_t>>;

SampleRow row_of(std::vector<std::int64_t> shape) {
  const PassSample pass = {.duration_us = 12.5, .spread_us = 0.25, .repeats = 20, .clock_mhz = {}, .energy = {}};
  return {.shape = std::move(shape), .passes = {pass, pass}};
}

TEST(SampleFormat, BeginsWithThePublishedColumns) {
  EXPECT_THAT(SampleFormat::of(SampledOperator::linear_qkv).header(), StartsWith("mp,b,l,dim,F_dur(us),B_dur(us),"));
  EXPECT_THAT(SampleFormat::of(SampledOperator::fused_attention).header(),
              StartsWith("mp,b,h,l,dim,F_dur(us),B_dur(us),"));
  EXPECT_THAT(SampleFormat::of(SampledOperator::layer_norm).header(), StartsWith("b,l,dim,F_dur(us),B_dur(us),"));
  EXPECT_THAT(SampleFormat::of(SampledOperator::cross_entropy).header(), StartsWith("mp,b,l,F_dur(us),B_dur(us),"));
  EXPECT_THAT(SampleFormat::of(SampledOperator::experts).header(),
              StartsWith("mp,b,l,dim,moe_num_experts,intermediate_size,top_k,F_dur(us),B_dur(us),"));
  EXPECT_THAT(SampleFormat::of_collectives().header(), StartsWith("shape,nodes,GPUsPerNode,dur(us),spread(us),"));
}

TEST(SampleFormat, RowsAreReadBack) {
  const SampleFormat format = SampleFormat::of(SampledOperator::linear_qkv);
  SampleRow row = row_of({4, 1, 2048, 8192});
  row.passes[1].duration_us = 1234.5678;
  row.passes[1].clock_mhz = 1980;
  row.passes[1].energy = {.energy_j = 0.75, .error_j = 0.01, .window_us = 1300, .clock_mhz = 1650.5};
  const CsvTable table(format.header() + format.row(row), "rows");
  ASSERT_EQ(table.rows(), 1U);
  EXPECT_EQ(table.integer(0, table.column("dim")), 8192);
  EXPECT_DOUBLE_EQ(table.number(0, table.column("F_dur(us)")), 12.5);
  EXPECT_DOUBLE_EQ(table.number(0, table.column("B_dur(us)")), 1234.57);
  EXPECT_EQ(table.integer(0, table.column("B_repeats")), 20);
  EXPECT_EQ(table.text(0, table.column("F_clock(MHz)")), "");
  EXPECT_DOUBLE_EQ(table.number(0, table.column("B_clock(MHz)")), 1980);
  EXPECT_EQ(table.text(0, table.column("F_energy(J)")), "");
  EXPECT_DOUBLE_EQ(table.number(0, table.column("B_energy(J)")), 0.75);
  EXPECT_DOUBLE_EQ(table.number(0, table.column("B_window(us)")), 1300);
  EXPECT_DOUBLE_EQ(table.number(0, table.column("B_window_clock(MHz)")), 1650.5);
}

class Resume : public ::testing::Test {
 protected:
  SampleFormat format = SampleFormat::of(SampledOperator::layer_norm);
  Plan plan = {{1, 16, 64}, {1, 32, 64}, {2, 16, 64}, {2, 32, 64}};
  std::string text = format.header() + format.row(row_of(plan[0])) + format.row(row_of(plan[1]));
};

TEST_F(Resume, ContinuesAfterTheLastRow) {
  const ResumePoint point = resume(format, text, "rows.csv", plan);
  EXPECT_EQ(point.kept_bytes, text.size());
  EXPECT_EQ(point.rows, 2U);
  EXPECT_EQ(point.next, 2U);
}

TEST_F(Resume, PassesOverWhatDidNotFitIntoMemory) {
  text += format.row(row_of(plan[3]));
  EXPECT_EQ(resume(format, text, "rows.csv", plan).next, 4U);
}

// Wherever a kill has cut it.
TEST_F(Resume, DropsALineThatWasNotFinished) {
  for (std::size_t size = 0; size < text.size(); ++size) {
    const ResumePoint point = resume(format, text.substr(0, size), "rows.csv", plan);
    EXPECT_LE(point.kept_bytes, size);
    EXPECT_EQ(point.next, point.rows);
    if (point.kept_bytes > 0) {
      EXPECT_EQ(text[point.kept_bytes - 1], '\n');
    }
  }
}

TEST_F(Resume, RefusesRowsOfAnotherPlan) {
  text += format.row(row_of({9, 9, 9}));
  EXPECT_THAT(error_of([&] { (void)resume(format, text, "rows.csv", plan); }),
              StartsWith("rows.csv:4: is not a row of this plan"));
}

TEST_F(Resume, RefusesRowsInAnotherOrder) {
  std::swap(plan[0], plan[1]);
  EXPECT_THROW((void)resume(format, text, "rows.csv", plan), InputError);
}

TEST_F(Resume, RefusesOtherColumnsAndBrokenCells) {
  EXPECT_THROW((void)resume(SampleFormat::of_collectives(), text, "rows.csv", plan), InputError);
  EXPECT_THROW((void)resume(format, text + "1,sixteen\n", "rows.csv", plan), InputError);
}

TEST(SampleFiles, AreNamedAsThePublishedOnes) {
  EXPECT_EQ(operator_file("NVIDIA A100-SXM4-80GB", SampledOperator::linear_qkv, SampleType::fp16, {}),
            "operator/NVIDIAA100-SXM4-80GB_linear1_fp16.csv");
  EXPECT_EQ(operator_file("../..", SampledOperator::gelu, SampleType::bf16, {.index = 2, .count = 4}),
            "operator/GPU_gelu_bf16_part2of4.csv");
  EXPECT_EQ(collective_file("nccl", "NVIDIA H200", SampledCollective::send, SampleType::bf16, 1, 2),
            "nccl/NVIDIAH200_p2p_bf16_1_2.csv");
}

TEST(SpreadOf, IsMedianAndQuartiles) {
  EXPECT_DOUBLE_EQ(spread_of({3}).median, 3);
  EXPECT_DOUBLE_EQ(spread_of({3}).quartiles, 0);
  const Spread spread = spread_of({5, 1, 4, 2, 3});
  EXPECT_DOUBLE_EQ(spread.median, 3);
  EXPECT_DOUBLE_EQ(spread.quartiles, 2);
  EXPECT_DOUBLE_EQ(spread_of({1, 2}).median, 1.5);
}

}  // namespace
}  // namespace lowgear::sampling
