#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error.h"
#include "estimating/estimator/gpu/gpu_model.h"

namespace lowgear::estimator {
namespace {

TEST(NamedGpu, HasWholeDataSheets) {
  for (const std::string& name : gpu_names()) {
    const GpuModel gpu = named_gpu(name);
    EXPECT_EQ(gpu.name, name);
    EXPECT_GT(gpu.fp16_flops, gpu.fp32_flops) << name;
    EXPECT_GT(gpu.fp32_flops, 1e13) << name;
    EXPECT_GE(gpu.memory_bytes, 16.0 * (1U << 30)) << name;
    EXPECT_GT(gpu.memory_bytes_per_s, gpu.link_bytes_per_s) << name;
    EXPECT_GT(gpu.l2_bytes, 0) << name;
    EXPECT_EQ((gpu.clocks.max_mhz - gpu.clocks.min_mhz) % gpu.clocks.step_mhz, 0) << name;
    EXPECT_GT(gpu.power.limit_w, 0) << name;
  }
}

/// Tensor cores of an SM do 2048 fp16 operations a clock on GA100, 4096 on GH100: what the whitepapers' peaks are made
/// of. So a wrong digit in either column shows.
TEST(NamedGpu, PeaksAreWhatTheirMultiprocessorsDoAtTheClockOfTheDataSheet) {
  EXPECT_NEAR(named_gpu("a100").fp16_flops, 108 * 2048 * 1410e6, 1e12);
  EXPECT_NEAR(named_gpu("h100-sxm").fp16_flops, 132 * 4096 * 1830e6, 1e12);
  EXPECT_NEAR(named_gpu("h100-pcie").fp16_flops, 114 * 4096 * 1620e6, 1e12);
  EXPECT_NEAR(named_gpu("v100").fp16_flops, 80 * 1024 * 1530e6, 1e12);
}

TEST(NamedGpu, KnowsAliases) {
  EXPECT_EQ(named_gpu("a100").name, "a100-80gb-sxm");
  EXPECT_EQ(named_gpu("H100").name, "h100-sxm");
  EXPECT_EQ(named_gpu("A100_40GB_SXM").name, "a100-40gb-sxm");
}

TEST(NamedGpu, SuggestsTheNearestName) {
  try {
    (void)named_gpu("h100-smx");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "there is no GPU \"h100-smx\"; did you mean h100-sxm?");
  }
}

TEST(PeakFlops, RefusesTypesWithoutTensorCores) {
  EXPECT_EQ(peak_flops(named_gpu("h100"), DataType::fp8), 1978.9e12);
  EXPECT_THROW((void)peak_flops(named_gpu("a100"), DataType::fp8), InputError);
  EXPECT_THROW((void)peak_flops(named_gpu("v100"), DataType::bf16), InputError);
}

}  // namespace
}  // namespace lowgear::estimator
