#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/Exceptions.h>
#include <c10/cuda/CUDAException.h>
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "training/trainer/fp8/matrix.h"

// A cast reads its matrix twice, for the largest element and for the numbers, and writes both orientations at once:
// the second product would otherwise pay for a transposition.

namespace lowgear::trainer::fp8 {
namespace {

constexpr int kThreads = 256;
constexpr int kVector = 8;  // elements of bf16 in 16 bytes
constexpr unsigned kMagnitudes = 0x7fff7fffU;

// Places in the tensor of factors of a cast.
constexpr int kFactor = 0;
constexpr int kLargestBits =
    4;  // largest magnitude in the matrix, bits of bf16; next 16 bytes, as factors are read alone
constexpr int kFactorPlaces = 8;

/// Below it matrices count as zero: the largest number divided by it is finite.
constexpr float kLeastMagnitude = 1e-30F;

/// Largest magnitude, compared as bits: infinity is above all numbers, and NaN above infinity.
__global__ void largest_kernel(const uint4* matrix, std::int64_t vectors, unsigned* result) {
  __shared__ unsigned of_warps[kThreads / 32];
  unsigned pair = 0;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x; i < vectors; i += stride) {
    const uint4 v = matrix[i];
    pair = __vmaxu2(
        pair, __vmaxu2(__vmaxu2(v.x & kMagnitudes, v.y & kMagnitudes), __vmaxu2(v.z & kMagnitudes, v.w & kMagnitudes)));
  }
  unsigned most = max(pair & 0xffffU, pair >> 16);
  for (int distance = 16; distance > 0; distance /= 2) {
    most = max(most, __shfl_xor_sync(0xffffffffU, most, distance));
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = most;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kThreads / 32; ++warp) most = max(most, of_warps[warp]);
  atomicMax(result, most);
}

template <__nv_fp8_interpretation_t kFormat>
__device__ float scale_for(unsigned largest_bits) {
  constexpr float kLargest = kFormat == __NV_E4M3 ? 448.0F : 57344.0F;
  return kLargest / fmaxf(__uint_as_float(largest_bits << 16), kLeastMagnitude);
}

/// Two neighbours in a word of bf16, scaled, as two bytes.
template <__nv_fp8_interpretation_t kFormat>
__device__ unsigned two_bytes(unsigned word, float scale) {
  const float2 pair = make_float2(__uint_as_float(word << 16) * scale, __uint_as_float(word & 0xffff0000U) * scale);
  return __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, kFormat);
}

/// Four rows of four bytes to four columns.
__device__ void transpose_bytes(const unsigned (&in)[4], unsigned (&out)[4]) {
  const unsigned low01 = __byte_perm(in[0], in[1], 0x5140);
  const unsigned high01 = __byte_perm(in[0], in[1], 0x7362);
  const unsigned low23 = __byte_perm(in[2], in[3], 0x5140);
  const unsigned high23 = __byte_perm(in[2], in[3], 0x7362);
  out[0] = __byte_perm(low01, low23, 0x5410);
  out[1] = __byte_perm(low01, low23, 0x7632);
  out[2] = __byte_perm(high01, high23, 0x5410);
  out[3] = __byte_perm(high01, high23, 0x7632);
}

constexpr int kTileRows = 128;
constexpr int kTileColumns = 64;
constexpr int kRowsPerThread = 4;
constexpr int kThreadsPerRow = kTileColumns / kVector;
static_assert(kThreads == kThreadsPerRow * (kTileRows / kRowsPerThread));

/// A block has a tile of the matrix, a thread four rows of eight columns in it. `transposed` is [columns, rows] and
/// null where it is not asked for. Rows and columns are multiples of 16.
template <__nv_fp8_interpretation_t kFormat>
__global__ void cast_kernel(const __nv_bfloat16* matrix, std::uint8_t* as_is, std::uint8_t* transposed, float* factors,
                            std::int64_t rows, std::int64_t columns) {
  __shared__ unsigned tile[kTileColumns][kTileRows / 4 + 1];  // transposed; one word more, against bank conflicts
  const float scale = scale_for<kFormat>(reinterpret_cast<const unsigned*>(factors)[kLargestBits]);
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) factors[kFactor] = 1.0F / scale;
  const int lane = static_cast<int>(threadIdx.x) % kThreadsPerRow;
  const int group = static_cast<int>(threadIdx.x) / kThreadsPerRow;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTileColumns + lane * kVector;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kTileRows + group * kRowsPerThread;
  unsigned left[kRowsPerThread] = {};   // columns 0 to 3
  unsigned right[kRowsPerThread] = {};  // columns 4 to 7
  if (row < rows && column < columns) {
    uint4 input[kRowsPerThread];
#pragma unroll
    for (int r = 0; r < kRowsPerThread; ++r) {
      input[r] = *reinterpret_cast<const uint4*>(matrix + (row + r) * columns + column);
    }
#pragma unroll
    for (int r = 0; r < kRowsPerThread; ++r) {
      left[r] = two_bytes<kFormat>(input[r].x, scale) | two_bytes<kFormat>(input[r].y, scale) << 16;
      right[r] = two_bytes<kFormat>(input[r].z, scale) | two_bytes<kFormat>(input[r].w, scale) << 16;
      *reinterpret_cast<uint2*>(as_is + (row + r) * columns + column) = make_uint2(left[r], right[r]);
    }
  }
  if (transposed == nullptr) return;
  unsigned by_column[4];
  transpose_bytes(left, by_column);
#pragma unroll
  for (int c = 0; c < 4; ++c) tile[lane * kVector + c][group] = by_column[c];
  transpose_bytes(right, by_column);
#pragma unroll
  for (int c = 0; c < 4; ++c) tile[lane * kVector + 4 + c][group] = by_column[c];
  __syncthreads();
  // Eight threads write the 128 bytes of a column, 16 each.
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kTileRows + lane * 16;
  for (int c = group; c < kTileColumns; c += kThreads / kThreadsPerRow) {
    const std::int64_t written_column = static_cast<std::int64_t>(blockIdx.x) * kTileColumns + c;
    if (written_column >= columns || first_row >= rows) continue;
    const unsigned* words = &tile[c][lane * 4];
    *reinterpret_cast<uint4*>(transposed + written_column * rows + first_row) =
        make_uint4(words[0], words[1], words[2], words[3]);
  }
}

unsigned tiles(std::int64_t count, int tile) { return static_cast<unsigned>((count + tile - 1) / tile); }

struct Destroy {
  void operator()(cublasLtMatmulDesc_t description) const { cublasLtMatmulDescDestroy(description); }
  void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
  void operator()(cublasLtMatmulPreference_t preference) const { cublasLtMatmulPreferenceDestroy(preference); }
};
using Description = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, Destroy>;
using MatrixLayout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, Destroy>;
using Preference = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, Destroy>;

cudaDataType_t type_of(Format format) { return format == Format::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2; }

/// cuBLAS counts columns first: a matrix of ours, row by row, is its transpose.
MatrixLayout layout_of(cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  TORCH_CUDABLAS_CHECK(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(columns),
                                                  static_cast<std::uint64_t>(rows), columns));
  return MatrixLayout(layout);
}

template <typename Value>
void set(const Description& description, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  TORCH_CUDABLAS_CHECK(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof(value)));
}

Description description_of(const Matrix& a, const Matrix& b, Accumulation accumulation) {
  cublasLtMatmulDesc_t made = nullptr;
  TORCH_CUDABLAS_CHECK(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  Description description(made);
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  set(description, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(accumulation == Accumulation::fast));
  set(description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(b.factor.data_ptr()));
  set(description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(a.factor.data_ptr()));
  return description;
}

constexpr std::uint64_t kWorkspaceBytes = std::uint64_t{32} << 20;

/// Largest power of two up to 256 that divides the address.
std::uint32_t alignment_of(const at::Tensor& tensor) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data_ptr());
  std::uint32_t alignment = 256;
  while (address % alignment != 0) alignment /= 2;
  return alignment;
}

Preference preference_for(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result) {
  cublasLtMatmulPreference_t made = nullptr;
  TORCH_CUDABLAS_CHECK(cublasLtMatmulPreferenceCreate(&made));
  Preference preference(made);
  const auto set_preference = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    TORCH_CUDABLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)));
  };
  set_preference(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(b));
  set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(a));
  set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(result));
  set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(result));
  return preference;
}

/// result = a · bᵀ + beta result, which for cuBLAS is resultᵀ [n, m] = (bᵀ [k, n])ᵀ · aᵀ [k, m].
void multiply(const at::Tensor& result, cudaDataType_t type, const Matrix& a, const Matrix& b, float beta,
              Accumulation accumulation) {
  TORCH_CHECK(a.bits.size(1) == b.bits.size(1), "factors of an fp8 product that do not fit");
  const Description description = description_of(a, b, accumulation);
  const MatrixLayout first = layout_of(type_of(b.format), b.bits.size(0), b.bits.size(1));
  const MatrixLayout second = layout_of(type_of(a.format), a.bits.size(0), a.bits.size(1));
  const MatrixLayout third = layout_of(type, a.bits.size(0), b.bits.size(0));
  const Preference preference = preference_for(a.bits, b.bits, result);
  const cublasLtHandle_t handle = at::cuda::getCurrentCUDABlasLtHandle();
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  TORCH_CUDABLAS_CHECK(cublasLtMatmulAlgoGetHeuristic(handle, description.get(), first.get(), second.get(), third.get(),
                                                      third.get(), preference.get(), 1, &found, &count));
  TORCH_CHECK(count > 0, "cuBLASLt has no fp8 product of [", a.bits.size(0), ", ", a.bits.size(1), "] and [",
              b.bits.size(0), ", ", b.bits.size(1), "]");
  const at::Tensor workspace = at::empty({static_cast<std::int64_t>(found.workspaceSize)}, a.bits.options());
  const float alpha = 1.0F;
  TORCH_CUDABLAS_CHECK(cublasLtMatmul(handle, description.get(), &alpha, b.bits.data_ptr(), first.get(),
                                      a.bits.data_ptr(), second.get(), &beta, result.data_ptr(), third.get(),
                                      result.data_ptr(), third.get(), &found.algo, workspace.data_ptr(),
                                      found.workspaceSize, at::cuda::getCurrentCUDAStream()));
}

}  // namespace

std::string missing(at::Device device) {
  constexpr std::pair kLeastCapability{8, 9};
  const cudaDeviceProp* properties = at::cuda::getDeviceProperties(device.index());
  if (std::pair(properties->major, properties->minor) >= kLeastCapability) return {};
  return std::string(properties->name) + " has compute capability " + std::to_string(properties->major) + "." +
         std::to_string(properties->minor) + ", and products in fp8 need " + std::to_string(kLeastCapability.first) +
         "." + std::to_string(kLeastCapability.second) + " or more";
}

Cast cast(const at::Tensor& matrix, Format format, Orientations orientations) {
  TORCH_CHECK(matrix.scalar_type() == at::kBFloat16 && matrix.dim() == 2, "fp8 casts take matrices in bf16");
  const at::Tensor input = matrix.contiguous();
  const std::int64_t rows = input.size(0);
  const std::int64_t columns = input.size(1);
  TORCH_CHECK(rows % kSizeMultiple == 0 && columns % kSizeMultiple == 0, "fp8 takes sizes of multiples of 16");
  const auto bytes = input.options().dtype(at::kByte);
  const at::Tensor factors = at::zeros({kFactorPlaces}, input.options().dtype(at::kFloat));
  const at::Tensor factor = factors.narrow(0, kFactor, 1);
  Cast result;
  result.as_is = {at::empty({rows, columns}, bytes), factor, format};
  if (orientations == Orientations::both) result.transposed = {at::empty({columns, rows}, bytes), factor, format};

  const auto stream = at::cuda::getCurrentCUDAStream();
  const std::int64_t vectors = input.numel() / kVector;
  const int blocks_at_once = 8 * at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const auto blocks = std::min<std::int64_t>((vectors + kThreads - 1) / kThreads, blocks_at_once);
  largest_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      static_cast<const uint4*>(input.data_ptr()), vectors, static_cast<unsigned*>(factors.data_ptr()) + kLargestBits);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const dim3 grid(tiles(columns, kTileColumns), tiles(rows, kTileRows));
  auto* transposed = result.transposed.bits.defined() ? result.transposed.bits.data_ptr<std::uint8_t>() : nullptr;
  const auto launch = [&](auto kernel) {
    kernel<<<grid, kThreads, 0, stream>>>(static_cast<const __nv_bfloat16*>(input.data_ptr()),
                                          result.as_is.bits.data_ptr<std::uint8_t>(), transposed,
                                          factors.data_ptr<float>(), rows, columns);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  };
  if (format == Format::e4m3) {
    launch(cast_kernel<__NV_E4M3>);
  } else {
    launch(cast_kernel<__NV_E5M2>);
  }
  return result;
}

at::Tensor product(const Matrix& a, const Matrix& b, at::ScalarType type, Accumulation accumulation) {
  TORCH_CHECK(type == at::kBFloat16, "fp8 products on GPUs are in bf16");
  at::Tensor result = at::empty({a.bits.size(0), b.bits.size(0)}, a.bits.options().dtype(type));
  multiply(result, CUDA_R_16BF, a, b, 0.0F, accumulation);
  return result;
}

void add_product(const at::Tensor& sum, const Matrix& a, const Matrix& b) {
  TORCH_CHECK(sum.scalar_type() == at::kFloat && sum.is_contiguous(), "fp8 products are added in fp32");
  multiply(sum, CUDA_R_32F, a, b, 1.0F, Accumulation::fp32);
}

}  // namespace lowgear::trainer::fp8
