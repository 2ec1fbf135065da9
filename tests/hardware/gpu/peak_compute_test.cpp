#include "hardware/gpu/peak_compute.h"

#include <gtest/gtest.h>

#include <string>

namespace lowgear::gpu {
namespace {

struct Known {
  std::string name;
  double fp32_tflop_s = 0;
  double bf16_tflop_s = 0;
};

class KnownGpu : public testing::TestWithParam<Known> {};

TEST_P(KnownGpu, HasThePeakOfItsDataSheet) {
  EXPECT_DOUBLE_EQ(peak_flop_s(GetParam().name, MatrixType::fp32).value(), GetParam().fp32_tflop_s * 1e12);
  EXPECT_DOUBLE_EQ(peak_flop_s(GetParam().name, MatrixType::bf16).value(), GetParam().bf16_tflop_s * 1e12);
}

INSTANTIATE_TEST_SUITE_P(Names, KnownGpu,
                         testing::Values(Known{"NVIDIA A100-SXM4-80GB", 19.5, 312},
                                         Known{"NVIDIA A100 80GB PCIe", 19.5, 312}, Known{"A100-SXM4-40GB", 19.5, 312},
                                         Known{"NVIDIA A10", 31.2, 125}, Known{"NVIDIA A30", 10.3, 165},
                                         Known{"NVIDIA A40", 37.4, 149.7}, Known{"NVIDIA L4", 30.3, 121},
                                         Known{"NVIDIA L40", 90.5, 181.05}, Known{"NVIDIA L40S", 91.6, 362.05},
                                         Known{"NVIDIA H100 80GB HBM3", 66.9, 989.4},
                                         Known{"NVIDIA H100 PCIe", 51.2, 756}, Known{"NVIDIA H200", 66.9, 989.4}));

TEST(PeakCompute, HasNoBf16WhereTensorCoresHaveNone) {
  EXPECT_DOUBLE_EQ(peak_flop_s("Tesla V100-SXM2-16GB", MatrixType::fp32).value(), 15.7e12);
  EXPECT_DOUBLE_EQ(peak_flop_s("Tesla V100-PCIE-32GB", MatrixType::fp32).value(), 14e12);
  EXPECT_EQ(peak_flop_s("Tesla V100-SXM2-16GB", MatrixType::bf16), std::nullopt);
}

TEST(PeakCompute, DoesNotGuess) {
  for (const char* name :
       {"", " ", "-", "NVIDIA", "NVIDIA H100 NVL", "NVIDIA H200 NVL", "NVIDIA A100X", "NVIDIA A800-SXM4-80GB",
        "NVIDIA H100", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA GeForce RTX 4090"}) {
    EXPECT_EQ(peak_flop_s(name, MatrixType::bf16), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace lowgear::gpu
