#include "hardware/load/load_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"

namespace lowgear::load {
namespace {

using curve::ProductData;
using curve::ProductType;
using testing::HasSubstr;
using testing::Not;

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(LoadKernel, MultipliesByWarpgroupsOnHopper) {
  const LoadKernel kernel = load_kernel(90, ProductType::fp8);
  EXPECT_THAT(kernel.ptx, HasSubstr(".target sm_90a"));
  EXPECT_EQ(count(kernel.ptx, "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3"), 32);
  EXPECT_THAT(kernel.ptx, Not(HasSubstr("mma.sync")));
  // Two groups, 128 times two rounds of 16 instructions of 64 x 256 x 32.
  EXPECT_THAT(kernel.ptx, HasSubstr("mov.u32 %r14, 128;\nPRODUCTS:"));
  EXPECT_EQ(kernel.product_operations, 2.0 * 256 * 16 * 2 * 64 * 256 * 32);
  EXPECT_GT(kernel.shared_bytes, 150'000U) << "one block on a multiprocessor";
}

TEST(LoadKernel, StartsNoSumAnewSoThatNoProductIsSuperfluous) {
  const LoadKernel kernel = load_kernel(90, ProductType::bf16);
  EXPECT_EQ(count(kernel.ptx, ", %p8, 1, 1, 0, 0;"), 16);
  EXPECT_EQ(count(kernel.ptx, ", %p8, -1, 1, 0, 0;"), 16) << "and none grows";
  EXPECT_EQ(count(load_kernel(80, ProductType::bf16).ptx, ", 0x80008000;"), 2 * 16)
      << "signs of the rows, in both rounds";
}

TEST(LoadKernel, MultipliesByWarpsElsewhere) {
  const LoadKernel kernel = load_kernel(80, ProductType::bf16);
  EXPECT_THAT(kernel.ptx, HasSubstr(".target sm_80\n"));
  EXPECT_EQ(count(kernel.ptx, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"), 192);
  EXPECT_EQ(kernel.product_operations, 8.0 * 256 * 96 * 2 * 16 * 8 * 16);
  EXPECT_THAT(load_kernel(120, ProductType::fp8).ptx, HasSubstr(".target sm_89\n"));
}

TEST(LoadKernel, ReadsDeviceMemoryBesideProducts) {
  for (const int capability : {80, 90}) {
    const LoadKernel kernel = load_kernel(capability, ProductType::bf16);
    const std::string loop =
        kernel.ptx.substr(kernel.ptx.find("\nMEMORY:"), kernel.ptx.find("NO_MEMORY:\n") - kernel.ptx.find("\nMEMORY:"));
    // 128 threads, 16 bytes each.
    EXPECT_EQ(kernel.read_bytes, 128 * 16 * count(loop, "ld.global.nc.L1::no_allocate.v4.u32"));
    EXPECT_EQ(count(loop, "fma"), 0);
    EXPECT_THAT(loop, HasSubstr("and.b32 %r24, %r24, %r22;")) << "within the memory";
    EXPECT_GT(kernel.reads, 0U);
  }
}

TEST(LoadKernel, HasTheInnerDimensionOfEachType) {
  EXPECT_THAT(load_kernel(90, ProductType::bf16).ptx, HasSubstr("m64n256k16"));
  EXPECT_THAT(load_kernel(90, ProductType::tf32).ptx, HasSubstr("m64n256k8.f32.tf32.tf32"));
  EXPECT_EQ(load_kernel(90, ProductType::tf32).product_operations * 4,
            load_kernel(90, ProductType::fp8).product_operations);
}

TEST(LoadKernel, RefusesTypesThatAGpuDoesNotMultiply) {
  EXPECT_THAT(error_of([] { (void)load_kernel(80, ProductType::fp8); }),
              HasSubstr("compute capability 8.0 has no products of fp8; it needs 8.9 or more"));
  EXPECT_THAT(error_of([] { (void)load_kernel(70, ProductType::bf16); }), HasSubstr("needs 8.0 or more"));
}

TEST(ElementMasks, LeaveNumbersFinite) {
  for (const std::uint32_t bits : {0U, 0xFFFFFFFFU, 0x7FC07FC0U, 0x12345678U}) {
    const auto bf16 = element_masks(ProductType::bf16, ProductData::numbers);
    EXPECT_NE(((bits & bf16.kept) | bf16.set) & 0x7F80U, 0x7F80U) << "neither NaN nor infinite";
    const auto fp8 = element_masks(ProductType::fp8, ProductData::numbers);
    EXPECT_NE(((bits & fp8.kept) | fp8.set) & 0x7FU, 0x7FU);
    const auto zeros = element_masks(ProductType::tf32, ProductData::zeros);
    EXPECT_EQ((bits & zeros.kept) | zeros.set, 0U);
  }
}

}  // namespace
}  // namespace lowgear::load
