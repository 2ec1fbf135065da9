#pragma once

/// Matrix products in fp8 with one factor for each matrix, from its largest element at hand ("tensorwise dynamic
/// scaling"): nothing is remembered from one product to the next. There are two implementations, of which a build has
/// one: matrix_aten.cpp emulates them on the CPU, for tests; matrix_cuda.cu casts by kernels of its own and multiplies
/// by cuBLASLt.

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

namespace lowgear::trainer::fp8 {

/// The two formats of Micikevicius et al. 2022, "FP8 Formats for Deep Learning".
enum class Format : unsigned char {
  e4m3,  ///< 4 bits of exponent, 3 of mantissa; no infinity: bits above 0x7e are NaN
  e5m2   ///< 5 and 2, as IEEE's formats are
};

/// The largest finite number: 448 or 57344.
[[nodiscard]] float largest(Format format);

/// The nearest number of the format, ties to the even mantissa. A larger value than the largest number, also infinity,
/// becomes that number; NaN stays NaN.
[[nodiscard]] std::uint8_t encode(float value, Format format);

/// The number that the bits mean.
[[nodiscard]] float decode(std::uint8_t bits, Format format);

/// What libraries ask of rows and columns of every factor.
inline constexpr std::int64_t kSizeMultiple = 16;

/// A matrix in fp8, row by row in memory: its numbers are `factor` times those that the bits mean.
struct Matrix {
  at::Tensor bits;    ///< uint8 [rows, columns]
  at::Tensor factor;  ///< fp32, one element
  Format format = Format::e4m3;
};

/// Matrices as factors are read along the dimension that is summed over, and two of the three products of training sum
/// over another one than the first.
enum class Orientations : unsigned char { as_is, both };

/// A matrix [rows, columns] in fp8.
struct Cast {
  Matrix as_is;
  Matrix transposed;  ///< [columns, rows]; undefined where it was not asked for
};

/// Why there are no products in fp8 on this device; empty: there are.
[[nodiscard]] std::string missing(at::Device device);

/// The matrix divided by the factor with which its largest element becomes the largest number of the format. A matrix
/// with an element that is not finite becomes one of which elements are NaN. `matrix` is [rows, columns] of multiples
/// of kSizeMultiple; on GPUs bf16.
[[nodiscard]] Cast cast(const at::Tensor& matrix, Format format, Orientations orientations);

enum class Accumulation : unsigned char {
  fast,  ///< in the tensor cores' own sums, of some 14 bits on Hopper
  fp32   ///< which are added to fp32 from time to time
};

/// a · bᵀ for [m, k] and [n, k]: [m, n] of `type`. Not both are e5m2.
[[nodiscard]] at::Tensor product(const Matrix& a, const Matrix& b, at::ScalarType type, Accumulation accumulation);

/// sum += a · bᵀ for a sum [m, n] in fp32, accumulated in fp32.
void add_product(const at::Tensor& sum, const Matrix& a, const Matrix& b);

}  // namespace lowgear::trainer::fp8
