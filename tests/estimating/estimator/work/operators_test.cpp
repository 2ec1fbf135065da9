#include "estimating/estimator/work/operators.h"

#include <gtest/gtest.h>

namespace lowgear::estimator {
namespace {

TEST(Operators, CountLinearByHand) {
  const Operator forward{OperatorKind::linear, Pass::forward, {8, 4, 16, 1}, DataType::bf16};
  EXPECT_DOUBLE_EQ(flops(forward), 2 * 8 * 4 * 16);
  EXPECT_DOUBLE_EQ(memory_bytes(forward), 2 * (8 * 4 + 4 * 16 + 8 * 16));
  Operator backward = forward;
  backward.pass = Pass::backward;
  EXPECT_DOUBLE_EQ(flops(backward), 2 * flops(forward));
  EXPECT_DOUBLE_EQ(memory_bytes(backward), 2 * memory_bytes(forward));
}

TEST(Operators, CountFusedAttentionAsCausal) {
  const Operator scores{OperatorKind::attention_scores, Pass::forward, {2 * 3, 64, 8, 64}, DataType::fp16};
  const Operator values{OperatorKind::attention_values, Pass::forward, {2 * 3, 64, 64, 8}, DataType::fp16};
  const Operator fused{OperatorKind::fused_attention, Pass::forward, {2, 64, 3, 8}, DataType::fp16};
  EXPECT_DOUBLE_EQ(flops(fused), (flops(scores) + flops(values)) / 2);
}

}  // namespace
}  // namespace lowgear::estimator
