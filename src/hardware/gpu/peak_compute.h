#pragma once

#include <optional>
#include <string_view>

namespace lowgear::gpu {

/// Type of the factors of a matrix product.
enum class MatrixType : unsigned char {
  fp32,  ///< in full precision, without tensor cores: libtorch's default
  bf16   ///< on tensor cores
};

/// Most floating-point operations per second of dense matrix products (no structured sparsity, which counts twice in
/// NVIDIA's tables) of the GPU that NVML and CUDA call `gpu_name`, at its boost clock: the denominator of MFU. Empty
/// for GPUs outside the table, for MIG instances, and for bf16 on GPUs whose tensor cores lack it (V100).
///
/// Sources, all NVIDIA's: the data sheets of V100, A10, A30, A40, RTX A6000, A100, L4, L40, L40S and H200; "Ampere
/// GA102 GPU Architecture" for the RTX 3090; "NVIDIA H100 Tensor Core GPU Architecture" for both forms of the H100.
/// H100 NVL and H200 NVL are not in the table.
[[nodiscard]] std::optional<double> peak_flop_s(std::string_view gpu_name, MatrixType type);

}  // namespace lowgear::gpu
