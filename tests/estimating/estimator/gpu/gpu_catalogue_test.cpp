#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
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

TEST(DataSheetFlops, AreAtTheClockOfTheDataSheet) {
  EXPECT_NEAR(data_sheet_flops(named_gpu("rtx-3090"), DataType::bf16), 71e12, 0.1e12);
  EXPECT_NEAR(data_sheet_flops(named_gpu("rtx-a6000"), DataType::bf16), 154.8e12, 0.1e12);
  EXPECT_EQ(data_sheet_flops(named_gpu("h100"), DataType::bf16), 989.4e12);
}

TEST(NamedGpu, KnowsAliases) {
  EXPECT_EQ(named_gpu("a100").name, "a100-80gb-sxm");
  EXPECT_EQ(named_gpu("H100").name, "h100-sxm");
  EXPECT_EQ(named_gpu("A100_40GB_SXM").name, "a100-40gb-sxm");
}

TEST(NamedGpu, SuggestsTheNearestName) {
  EXPECT_EQ(error_of([] { (void)named_gpu("h100-smx"); }), "there is no GPU \"h100-smx\"; did you mean h100-sxm?");
}

TEST(PeakFlops, RefusesTypesWithoutTensorCores) {
  EXPECT_EQ(peak_flops(named_gpu("h100"), DataType::fp8), 1978.9e12);
  EXPECT_THROW((void)peak_flops(named_gpu("a100"), DataType::fp8), InputError);
  EXPECT_THROW((void)peak_flops(named_gpu("v100"), DataType::bf16), InputError);
  EXPECT_EQ(peak_flops(named_gpu("gb200"), DataType::fp4), 2 * peak_flops(named_gpu("gb200"), DataType::fp8));
  EXPECT_EQ(peak_flops(named_gpu("gb300"), DataType::fp4), 3 * peak_flops(named_gpu("gb300"), DataType::fp8));
  EXPECT_THROW((void)peak_flops(named_gpu("h200"), DataType::fp4), InputError);
}

TEST(NamedGpu, IsFoundByTheNameOfTheDriver) {
  for (const auto& [driver, name] : std::vector<std::pair<const char*, const char*>>{
           {"Tesla V100-SXM2-16GB", "v100-16gb-sxm"},
           {"Tesla V100-SXM2-32GB", "v100-sxm"},
           {"NVIDIA GeForce RTX 3090", "rtx-3090"},
           {"NVIDIA RTX A6000", "rtx-a6000"},
           {"NVIDIA A40", "a40"},
           {"NVIDIA A100-SXM4-40GB", "a100-40gb-sxm"},
           {"NVIDIA A100-SXM4-80GB", "a100-80gb-sxm"},
           {"A100-SXM4-80GB", "a100-80gb-sxm"},
           {"NVIDIA A100 80GB PCIe", "a100-80gb-pcie"},
           {"NVIDIA H100 PCIe", "h100-pcie"},
           {"NVIDIA H100 80GB HBM3", "h100-sxm"},
           {"nvidia h100 80gb hbm3", "h100-sxm"},
           {"NVIDIA H200", "h200-sxm"},
           {"NVIDIA GH200 480GB", "gh200"},
           {"NVIDIAGH200120GB", "gh200"},
           {"NVIDIAA100-SXM4-80GB", "a100-80gb-sxm"},
           {"NVIDIA B200", "b200"},
           {"NVIDIA GB200", "gb200"},
           {"NVIDIA B300 SXM6 AC", "b300"},
           {"NVIDIA GB300", "gb300"},
       }) {
    EXPECT_EQ(gpu_of_name(driver), name) << driver;
    EXPECT_EQ(named_gpu(driver).name, name);
  }
}

TEST(NamedGpu, MayHaveBlanksAroundIt) {
  for (const char* const name : {" h100-sxm", "h100-sxm ", "\th100-sxm\r\n", " NVIDIA H100 80GB HBM3 "}) {
    EXPECT_EQ(named_gpu(name).name, "h100-sxm");
  }
}

TEST(NamedGpu, IsNoOtherOfTheFamily) {
  for (const char* const other :
       {"NVIDIA H100 NVL", "NVIDIA H200 NVL", "NVIDIA A100-PCIE-40GB", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA A400",
        "NVIDIA GH200 144G HBM3e", "NVIDIA A100-SXM4-80GB MIG 3g.40gb", "NVIDIA A100", "NVIDIA", ""}) {
    EXPECT_EQ(gpu_of_name(other), std::nullopt) << other;
  }
}

TEST(NamedGpu, HasShortNamesAndSuggestsItsOwnFamily) {
  EXPECT_EQ(named_gpu("a100-sxm").name, "a100-80gb-sxm");
  EXPECT_EQ(named_gpu("H100 SXM5").name, "h100-sxm");
  EXPECT_EQ(named_gpu("a6000").name, "rtx-a6000");
  const auto error_of_name = [](const char* name) { return lowgear::error_of([&] { (void)named_gpu(name); }); };
  EXPECT_EQ(error_of_name("a100-pcie"), "there is no GPU \"a100-pcie\"; did you mean a100-80gb-pcie?");
  EXPECT_EQ(error_of_name("NVIDIA H100 NVL"),
            "there is no GPU \"NVIDIA H100 NVL\"; did you mean h100-pcie or h100-sxm?");
  EXPECT_THAT(error_of_name("a100pcie"),
              testing::AllOf(testing::HasSubstr("a100-80gb-pcie"), testing::Not(testing::HasSubstr("h100"))));
  EXPECT_THAT(
      error_of_name("NVIDIA H800"),
      testing::StartsWith("there is no GPU \"NVIDIA H800\"; it is an H100 whose NVLink has 400 GB/s, not 900: name "
                          "h100-sxm with intra_node_gb_per_s 200 (--intra-node-gb-per-s)"));
  EXPECT_THAT(error_of_name("NVIDIA A800-SXM4-80GB"), testing::HasSubstr("an A100 whose NVLink has 400 GB/s, not 600"));
  for (const char* const amd : {"mi300x", "AMD Instinct MI300X", "MI355X"}) {
    EXPECT_THAT(error_of_name(amd), testing::HasSubstr("it is one of AMD's, and the catalogue has NVIDIA's alone"));
  }
  EXPECT_THAT(error_of_name("h20"), testing::Not(testing::HasSubstr("did you mean")));
  EXPECT_THAT(error_of_name("h200x"), testing::HasSubstr("did you mean h200-sxm"));
  EXPECT_THAT(error_of_name("l40s"), testing::HasSubstr("there are v100-16gb-sxm, "));
}

}  // namespace
}  // namespace lowgear::estimator
