#include "estimating/estimator/work/operators.h"

#include <gtest/gtest.h>

namespace lowgear::estimator {

namespace {

TEST(WorkCost, AddsWhatLimitsTheWorkApart) {
  const WorkCost product{.core_s = 2, .flops = 100, .memory_bytes = 10, .error_s = 0.25};
  const WorkCost norm{.memory_s = 1, .memory_bytes = 30, .error_s = 0.5};
  const WorkCost sum = 3.0 * product + norm;
  EXPECT_DOUBLE_EQ(sum.core_s, 6);
  EXPECT_DOUBLE_EQ(sum.memory_s, 1);
  EXPECT_DOUBLE_EQ(sum.time_s(), 7);
  EXPECT_DOUBLE_EQ(sum.flops, 300);
  EXPECT_DOUBLE_EQ(sum.memory_bytes, 60);
  EXPECT_DOUBLE_EQ(sum.error_s, 1.25);
}

TEST(WorkCost, TakesAnotherTimeForTheSameWork) {
  const WorkCost longer = taking({.core_s = 2, .memory_s = 1, .flops = 100, .memory_bytes = 10, .error_s = 0.3}, 6);
  EXPECT_DOUBLE_EQ(longer.core_s, 4);
  EXPECT_DOUBLE_EQ(longer.memory_s, 2);
  EXPECT_DOUBLE_EQ(longer.error_s, 0.6);
  EXPECT_DOUBLE_EQ(longer.flops, 100);
  EXPECT_DOUBLE_EQ(longer.memory_bytes, 10);
}

TEST(Operators, CountLinearByHand) {
  const Operator forward{OperatorKind::linear, Pass::forward, {8, 4, 16, 1}, DataType::bf16};
  EXPECT_DOUBLE_EQ(flops(forward), 2 * 8 * 4 * 16);
  EXPECT_DOUBLE_EQ(memory_bytes(forward), 2 * (8 * 4 + 4 * 16 + 8 * 16));
  Operator backward = forward;
  backward.pass = Pass::backward;
  EXPECT_DOUBLE_EQ(flops(backward), 2 * flops(forward));
  EXPECT_DOUBLE_EQ(memory_bytes(backward), 2 * memory_bytes(forward));
}

TEST(Operators, CountExpertsByTheirRows) {
  const Operator plain{OperatorKind::experts, Pass::forward, {8, 4, 16, 2}, DataType::bf16, 12};
  Operator gated = plain;
  gated.kind = OperatorKind::gated_experts;
  const double router = 2 * 8 * 4 * 2;
  EXPECT_DOUBLE_EQ(flops(plain), 2 * 12 * 2 * 4 * 16 + router);
  EXPECT_DOUBLE_EQ(flops(gated), 2 * 12 * 3 * 4 * 16 + router);
  EXPECT_DOUBLE_EQ(expert_weights(gated), 2 * 3 * 4 * 16);
  EXPECT_GT(memory_bytes(plain), 2 * expert_weights(plain));
  Operator backward = gated;
  backward.pass = Pass::backward;
  EXPECT_DOUBLE_EQ(flops(backward), 2 * flops(gated));
  EXPECT_DOUBLE_EQ(memory_bytes(backward), 2 * memory_bytes(gated));
}

TEST(Operators, CountFusedAttentionAsCausal) {
  const Operator scores{OperatorKind::attention_scores, Pass::forward, {2 * 3, 64, 8, 64}, DataType::fp16};
  const Operator values{OperatorKind::attention_values, Pass::forward, {2 * 3, 64, 64, 8}, DataType::fp16};
  const Operator fused{OperatorKind::fused_attention, Pass::forward, {2, 64, 3, 8}, DataType::fp16};
  EXPECT_DOUBLE_EQ(flops(fused), (flops(scores) + flops(values)) / 2);
}

}  // namespace

}  // namespace lowgear::estimator
