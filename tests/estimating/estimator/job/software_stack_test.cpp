#include "estimating/estimator/job/software_stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/core/error_of.h"

namespace lowgear::estimator {
namespace {

TEST(SoftwareStacks, HaveNamesOfTheirOwnAndASummary) {
  std::set<std::string_view> names;
  for (const SoftwareStack& stack : software_stacks()) {
    EXPECT_TRUE(names.insert(stack.name).second) << stack.name;
    EXPECT_FALSE(stack.summary.empty()) << stack.name;
    EXPECT_EQ(named_stack(stack.name).summary, stack.summary);
  }
  EXPECT_EQ(software_stacks().front().name, "megatron");
}

TEST(NamedStack, NamesTheNearest) {
  EXPECT_THAT(error_of([] { (void)named_stack("compild"); }), testing::HasSubstr("did you mean compiled?"));
  EXPECT_THAT(error_of([] { (void)named_stack("jax"); }), testing::HasSubstr("megatron, eager, compiled"));
}

TEST(DescribeStack, NamesWhatAJobChanges) {
  SoftwareStack stack = named_stack("megatron");
  EXPECT_EQ(describe(stack), "megatron");
  stack.weights = DataType::fp8;
  stack.gradients = DataType::bf16;
  stack.fused_norms = false;
  EXPECT_EQ(describe(stack), "megatron (fused_norms off, weights fp8, gradients bf16)");
  stack.host.operator_s = 0;
  EXPECT_THAT(describe(stack), testing::HasSubstr("host changed"));
}

}  // namespace
}  // namespace lowgear::estimator
