#include "estimating/estimator/costs/measured_costs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"

namespace lowgear::estimator {

namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Says a second of everything, so that it can be told from samples.
class OneSecond final : public OperatorCosts {
 public:
  [[nodiscard]] WorkCost cost(const Operator&) const override { return {.core_s = 1}; }
};
const OneSecond kOtherwise;

SampleFile file(const std::string& name, std::string text) {
  return {"dir/" + name, *parse_sample_file_name(name), std::move(text)};
}

/// linear1 on an A100 at 200 TFLOP/s, backward at the same rate.
SampleFile products(const std::string& function = "linear1", int ranks = 1) {
  std::string text = "mp,b,l,dim,F_dur(us),B_dur(us)\n";
  for (int sequence = 512; sequence <= 4096; sequence += 512) {
    for (const int hidden : {1024, 2048, 4096, 8192}) {
      const SampledShape shape{.ranks = ranks, .batch = 4, .sequence = sequence, .hidden = hidden};
      const double us =
          1e6 * flops(*operator_of(*find_sampled_function(function), shape, Pass::forward, DataType::fp16)) / 200e12;
      text += fmt::format("{},4,{},{},{},{}\n", ranks, sequence, hidden, us, 2 * us);
    }
  }
  return file("NVIDIAA100-SXM4-80GB_" + function + "_fp16.csv", text);
}

Operator product(std::int64_t tokens, Pass pass = Pass::forward, DataType dtype = DataType::fp16) {
  return {OperatorKind::linear, pass, {tokens, 4096, 12288, 1}, dtype};
}

TEST(MeasuredOperatorCosts, TakeTimesFromSamples) {
  const MeasuredOperatorCosts costs({products()}, named_gpu("a100"), kOtherwise);
  const WorkCost forward = costs.cost(product(8192));
  EXPECT_NEAR(forward.time_s() / (flops(product(8192)) / 200e12), 1, 0.02);
  EXPECT_EQ(forward.time_s(), forward.core_s);
  EXPECT_DOUBLE_EQ(forward.flops, flops(product(8192)));
  EXPECT_DOUBLE_EQ(forward.memory_bytes, memory_bytes(product(8192)));
  EXPECT_NEAR(costs.cost(product(8192, Pass::backward)).time_s() / forward.time_s(), 2, 0.05);
  EXPECT_THAT(costs.notes(), testing::IsEmpty());
}

TEST(MeasuredOperatorCosts, PutAllFilesOfAKindTogether) {
  const MeasuredOperatorCosts costs({products("linear4", 2), products("linear2")}, named_gpu("a100"), kOtherwise);
  EXPECT_NEAR(costs.cost(product(8192)).time_s() / (flops(product(8192)) / 200e12), 1, 0.05);
}

TEST(MeasuredOperatorCosts, SayWhichFunctionWasSampledForOneNumberOfRanksOnly) {
  const MeasuredOperatorCosts costs({products("linear1", 2), products("linear2")}, named_gpu("a100"), kOtherwise);
  (void)costs.cost(product(8192));
  EXPECT_THAT(costs.notes(), Contains(HasSubstr("linear2: sampled for 1 tensor parallel rank only")));
}

TEST(MeasuredOperatorCosts, FallBackForWhatWasNotSampledAndSaySo) {
  const MeasuredOperatorCosts costs({products()}, named_gpu("a100"), kOtherwise);
  const Operator swiglu{OperatorKind::swiglu, Pass::forward, {4, 4096, 8192, 1}, DataType::fp16};
  EXPECT_DOUBLE_EQ(costs.cost(swiglu).time_s(), 1);
  EXPECT_THAT(costs.notes(), ElementsAre("swiglu: no samples; taken from the GPU's data sheet"));
}

TEST(MeasuredOperatorCosts, FallBackForAPassThatCannotBeBelieved) {
  std::string text = "mp,b,h,l,dim,F_dur(us),B_dur(us)\n";
  for (int sequence = 1024; sequence <= 8192; sequence += 1024)
    text += fmt::format("1,4,32,{},4096,{},50\n", sequence, sequence);
  const MeasuredOperatorCosts costs({file("NVIDIAGH200120GB_flash_atten_fp16.csv", text)}, named_gpu("gh200"),
                                    kOtherwise);
  Operator attention{OperatorKind::fused_attention, Pass::backward, {4, 4096, 32, 128}, DataType::fp16};
  EXPECT_DOUBLE_EQ(costs.cost(attention).time_s(), 1);
  attention.pass = Pass::forward;
  EXPECT_LT(costs.cost(attention).time_s(), 0.01);
  EXPECT_THAT(costs.notes(),
              testing::AllOf(Contains(HasSubstr("no time of this pass is used")),
                             Contains("fused_attention backward: no samples; taken from the GPU's data sheet"),
                             Contains(HasSubstr("flash_atten: sampled without a causal mask"))));
}

TEST(MeasuredOperatorCosts, TakeTheOther16BitTypeAndSaySo) {
  const MeasuredOperatorCosts costs({products()}, named_gpu("a100"), kOtherwise);
  EXPECT_LT(costs.cost(product(8192, Pass::forward, DataType::bf16)).time_s(), 0.01);
  EXPECT_THAT(costs.notes(), ElementsAre("linear: sampled in fp16, used for bf16"));
  EXPECT_DOUBLE_EQ(costs.cost(product(8192, Pass::forward, DataType::fp32)).time_s(), 1);
}

TEST(MeasuredOperatorCosts, SayWhatLiesOutsideOfTheSamples) {
  const MeasuredOperatorCosts costs({products()}, named_gpu("a100"), kOtherwise);
  const WorkCost inside = costs.cost(product(8192));
  const WorkCost beyond = costs.cost(product(1 << 20));
  EXPECT_NEAR(beyond.time_s() / inside.time_s(), 128, 3);
  EXPECT_THAT(costs.notes(), ElementsAre("linear forward: tokens 1048576 (sampled 2048 to 16384) is outside of the "
                                         "samples; extrapolated by its trend"));
}

TEST(MeasuredOperatorCosts, ReadFilesOnlyWhenAsked) {
  const MeasuredOperatorCosts costs({products(), file("NVIDIAA100-SXM4-80GB_gelu_fp16.csv", "mp,b,l\n1,2,3\n")},
                                    named_gpu("a100"), kOtherwise);
  EXPECT_NO_THROW((void)costs.cost(product(8192)));
  const Operator gelu{OperatorKind::gelu, Pass::forward, {4, 4096, 8192, 1}, DataType::fp16};
  EXPECT_THAT(error_of([&] { (void)costs.cost(gelu); }),
              HasSubstr("dir/NVIDIAA100-SXM4-80GB_gelu_fp16.csv:1: there is no column \"dim\""));
}

TEST(MeasuredOperatorCosts, LeaveAllToTheOtherSourceWhereOnlyCollectivesWereSampled) {
  const SampleFile collective = file("X_allreduce_fp16_1_2.csv", "shape,nodes,GPUsPerNode,dur(us)\n8,1,2,5\n");
  const MeasuredOperatorCosts costs({collective}, named_gpu("a100"), kOtherwise);
  EXPECT_DOUBLE_EQ(costs.cost(product(8192)).time_s(), 1);
  EXPECT_THAT(costs.notes(), ElementsAre("linear: no samples; taken from the GPU's data sheet"));
}

/// Experts that compute at 150 TFLOP/s after a start and 2 us for each of them.
double experts_s(const Operator& op) { return 30e-6 + 2e-6 * static_cast<double>(op.dims[3]) + flops(op) / 150e12; }

SampledShape experts_shape(std::int64_t ranks, std::int64_t tokens, std::int64_t hidden, std::int64_t width,
                           std::int64_t per_token) {
  return {.ranks = ranks,
          .batch = 1,
          .sequence = tokens,
          .hidden = hidden,
          .experts = 16,
          .expert_width = width,
          .experts_per_token = per_token};
}

std::vector<SampledShape> experts_shapes() {
  std::vector<SampledShape> shapes;
  for (const int ranks : {1, 2, 4}) {
    for (const int tokens : {2048, 4096, 8192}) {
      for (const int hidden : {2048, 4096}) {
        for (const int width : {1024, 4096}) {
          for (const int per_token : {1, 4}) {
            shapes.push_back(experts_shape(ranks, tokens, hidden, width, per_token));
          }
        }
      }
    }
  }
  return shapes;
}

SampleFile experts(const std::string& function) {
  std::string text = "mp,b,l,dim,moe_num_experts,intermediate_size,top_k,F_dur(us),B_dur(us)\n";
  for (const SampledShape& shape : experts_shapes()) {
    const auto us = [&](Pass pass) {
      return 1e6 * experts_s(*operator_of(*find_sampled_function(function), shape, pass, DataType::bf16));
    };
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{}\n", shape.ranks, shape.batch, shape.sequence, shape.hidden,
                    shape.experts, shape.expert_width, shape.experts_per_token, us(Pass::forward), us(Pass::backward));
  }
  return file("NVIDIAA100-SXM4-80GB_" + function + "_bf16.csv", text);
}

TEST(MeasuredOperatorCosts, TakeWholeExpertsFromTheirSamples) {
  const MeasuredOperatorCosts costs({experts("gated_moe")}, named_gpu("a100"), kOtherwise);
  for (const SampledShape& shape : experts_shapes()) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const Operator op = *operator_of(*find_sampled_function("gated_moe"), shape, pass, DataType::bf16);
      const std::optional<WorkCost> cost = costs.cost_of_whole(op);
      ASSERT_TRUE(cost.has_value());
      EXPECT_NEAR(cost->time_s() / experts_s(op), 1, 0.01);
    }
  }
  EXPECT_THAT(costs.notes(), ElementsAre("gated_experts: taken from samples of the whole layer"));
}

TEST(MeasuredOperatorCosts, TellExpertsByTheirRows) {
  const MeasuredOperatorCosts costs({experts("moe")}, named_gpu("a100"), kOtherwise);
  Operator op{OperatorKind::experts, Pass::forward, {4096, 4096, 4096, 16}, DataType::bf16, 4096};
  const double few_s = costs.cost(op).time_s();
  op.rows *= 4;
  EXPECT_GT(costs.cost(op).time_s(), 2 * few_s);
}

TEST(MeasuredOperatorCosts, HaveNoWholeExpertsWithoutSamplesAndSaySo) {
  const MeasuredOperatorCosts costs({products(), experts("moe")}, named_gpu("a100"), kOtherwise);
  const Operator op{OperatorKind::gated_experts, Pass::forward, {4096, 4096, 4096, 16}, DataType::bf16, 8192};
  EXPECT_EQ(costs.cost_of_whole(op), std::nullopt);
  EXPECT_THAT(costs.notes(),
              ElementsAre("gated_experts: no samples; made of its products, permutations and activation"));
}

TEST(SampleFiles, AreThoseOfTheGpu) {
  const auto names = [](const std::vector<SampleFile>& files) {
    std::vector<std::string> result;
    for (const SampleFile& each : files) result.push_back(each.name.gpu);
    return result;
  };
  const SampleFile a100 = file("NVIDIAA100-SXM4-80GB_gelu_fp16.csv", "");
  const SampleFile gh200 = file("NVIDIAGH200120GB_gelu_fp16.csv", "");
  const SampleFile other = file("CPU_gelu_fp16.csv", "");
  EXPECT_THAT(names(files_of_gpu({gh200, a100, other}, named_gpu("a100"), "dir")), ElementsAre("NVIDIAA100-SXM4-80GB"));
  EXPECT_THAT(names(files_of_gpu({gh200, other}, named_gpu("a100"), "dir")), ElementsAre("CPU"));
  EXPECT_THAT(error_of([&] { (void)files_of_gpu({gh200}, named_gpu("h200"), "dir"); }),
              HasSubstr("dir: was sampled on NVIDIAGH200120GB, not on h200-sxm"));
  EXPECT_THAT(error_of([&] { (void)files_of_gpu({}, named_gpu("h200"), "dir"); }),
              HasSubstr("dir: has no sampling files"));
}

/// Fused attention at 200 TFLOP/s, with a causal mask.
SampleFile attention() {
  std::string text = "mp,b,h,l,dim,F_dur(us),F_spread(us),B_dur(us)\n";
  for (int sequence = 1024; sequence <= 16384; sequence *= 2) {
    for (const int heads : {8, 16, 32}) {
      const double us = 1e6 * 2.0 * 4 * sequence * heads * 128 * sequence / 200e12;
      text += fmt::format("1,4,{},{},{},{},1,{}\n", heads, sequence, heads * 128, us, 2.5 * us);
    }
  }
  return file("NVIDIAA100-SXM4-80GB_flash_atten_fp16.csv", text);
}

TEST(MeasuredOperatorCosts, TakeTheShareOfPairsWithinAWindow) {
  const MeasuredOperatorCosts costs({attention()}, named_gpu("a100"), kOtherwise);
  Operator op{OperatorKind::fused_attention, Pass::forward, {4, 8192, 16, 128}, DataType::fp16};
  const WorkCost whole = costs.cost(op);
  EXPECT_THAT(costs.notes(), testing::Not(Contains(HasSubstr("window"))));
  op.window = 2048;
  const WorkCost part = costs.cost(op);
  EXPECT_NEAR(part.time_s() / whole.time_s(), 0.25 * 1.75, 1e-9);
  EXPECT_DOUBLE_EQ(part.flops / whole.flops, 0.25 * 1.75);
  EXPECT_THAT(costs.notes(), Contains(HasSubstr("fused_attention: sampled without a window")));
}

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// 100 GB/s and 10 us, times the number of ranks.
class Links final : public CollectiveCosts {
 public:
  [[nodiscard]] WorkCost cost(CollectiveKind, double bytes, const RankGroup& group) const override {
    return {.link_s = group.ranks * (10e-6 + bytes / 100e9), .link_bytes = bytes, .error_s = group.ranks * 1e-6};
  }
};
const Links kLinks;

/// Powers of two of elements at `bytes_per_s`.
SampleFile sums(int nodes, int per_node, double bytes_per_s, const std::string& function = "allreduce") {
  std::string text = "shape,nodes,GPUsPerNode,dur(us)\n";
  for (int power = 20; power <= 28; ++power) {
    const double elements = static_cast<double>(1 << power);
    text += fmt::format("{},{},{},{}\n", elements, nodes, per_node, 1e6 * 2 * elements / bytes_per_s);
  }
  const std::string name = fmt::format("X_{}_fp16_{}_{}.csv", function, nodes, per_node);
  return {name, *parse_sample_file_name(name), text};
}

double time_of(const MeasuredCollectiveCosts& costs, double bytes, const RankGroup& group) {
  return costs.cost(CollectiveKind::all_reduce, bytes, group).time_s();
}

TEST(MeasuredCollectiveCosts, InterpolateBetweenSizes) {
  const MeasuredCollectiveCosts costs({sums(1, 4, 80e9)}, named_gpu("a100"), kLinks);
  for (const double bytes : {4e6, 1e7, 123456789.0, 5e8}) {
    EXPECT_NEAR(time_of(costs, bytes, {4, 4}), bytes / 80e9, 1e-3 * bytes / 80e9);
  }
  EXPECT_THAT(costs.notes(), IsEmpty());
  const WorkCost cost = costs.cost(CollectiveKind::all_reduce, 1e8, {4, 4});
  EXPECT_EQ(cost.time_s(), cost.link_s);
  EXPECT_DOUBLE_EQ(cost.link_bytes, 1e8);
  EXPECT_GT(cost.error_s, 0);
}

TEST(MeasuredCollectiveCosts, LeaveMessagesOfNothingToTheOtherSource) {
  const MeasuredCollectiveCosts costs({sums(1, 4, 80e9)}, named_gpu("a100"), kLinks);
  EXPECT_DOUBLE_EQ(time_of(costs, 0, {4, 4}), kLinks.cost({}, 0, {4, 4}).time_s());
  EXPECT_DOUBLE_EQ(time_of(costs, 1e6, {1, 1}), kLinks.cost({}, 1e6, {1, 1}).time_s());
  EXPECT_THAT(costs.notes(), IsEmpty());
}

TEST(MeasuredCollectiveCosts, ScaleBeyondTheSizesAsTheLinksDo) {
  const MeasuredCollectiveCosts costs({sums(1, 4, 80e9)}, named_gpu("a100"), kLinks);
  const double least = 2.0 * (1 << 20);
  const double scale = (10e-6 + 1e3 / 100e9) / (10e-6 + least / 100e9);
  EXPECT_NEAR(time_of(costs, 1e3, {4, 4}), least / 80e9 * scale, 1e-9);
  EXPECT_THAT(costs.notes(),
              ElementsAre("all_reduce of 1 x 4 GPUs: messages below 2.1 MB were not sampled; scaled by the "
                          "links' data sheet"));
}

TEST(MeasuredCollectiveCosts, TakeTheNearestGroupAndSaySo) {
  const MeasuredCollectiveCosts costs({sums(2, 1, 20e9), sums(8, 1, 15e9)}, named_gpu("a100"), kLinks);
  const double exact = time_of(costs, 1e8, {8, 1});
  EXPECT_NEAR(exact, 1e8 / 15e9, 1e-3 * exact);
  EXPECT_THAT(costs.notes(), IsEmpty());
  EXPECT_NEAR(time_of(costs, 1e8, {16, 1}), 2 * exact, 1e-3 * exact);
  EXPECT_THAT(costs.notes(), ElementsAre("all_reduce of 16 x 1 GPUs: not sampled; taken from that of 8 x 1 GPUs"));
}

TEST(MeasuredCollectiveCosts, NeverTakeAGroupAcrossNodesForOneWithin) {
  const MeasuredCollectiveCosts costs({sums(8, 1, 20e9)}, named_gpu("a100"), kLinks);
  EXPECT_DOUBLE_EQ(time_of(costs, 1e8, {8, 8}), kLinks.cost({}, 1e8, {8, 8}).time_s());
  EXPECT_THAT(costs.notes(), ElementsAre("all_reduce of 1 x 8 GPUs: no samples; taken from the links' data sheet"));
}

TEST(MeasuredCollectiveCosts, SayWhereSamplesAreMuchSlowerThanTheLinks) {
  const MeasuredCollectiveCosts costs({sums(2, 1, 1.2e9)}, named_gpu("a100"), kLinks);
  EXPECT_NEAR(time_of(costs, 1e8, {2, 1}), 1e8 / 1.2e9, 1e-3);
  EXPECT_THAT(costs.notes(),
              testing::Contains(testing::HasSubstr("42 times slower in the samples than the links allow")));
}

TEST(MeasuredCollectiveCosts, TakeSmallAndLargeMessagesTogether) {
  SampleFile large = sums(1, 4, 40e9, "allreduce_large");
  large.text = "shape,nodes,GPUsPerNode,dur(us)\n1e9,1,4,50000\n";
  const MeasuredCollectiveCosts costs({large, sums(1, 4, 80e9)}, named_gpu("a100"), kLinks);
  EXPECT_NEAR(time_of(costs, 2e9, {4, 4}), 0.05, 1e-9);
  EXPECT_NEAR(time_of(costs, 1e7, {4, 4}), 1e7 / 80e9, 1e-6);
}

}  // namespace

}  // namespace lowgear::estimator
