#include "training/trainer/fp8/matrix.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace lowgear::trainer::fp8 {
namespace {

at::Tensor random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed, double size = 1) {
  return at::empty({rows, columns}).normal_(0, size, at::detail::createCPUGenerator(seed));
}

float element(const Matrix& matrix, std::int64_t row, std::int64_t column) {
  return decode(matrix.bits[row][column].item<std::uint8_t>(), matrix.format) * matrix.factor.item<float>();
}

TEST(Fp8Cast, PutsTheLargestElementAtTheEndOfTheRange) {
  const at::Tensor matrix = random_matrix(16, 32, 1, 1e-6);
  matrix[3][5] = -7e-6;
  for (const Format format : {Format::e4m3, Format::e5m2}) {
    const Cast cast = fp8::cast(matrix, format, Orientations::both);
    EXPECT_EQ(decode(cast.as_is.bits[3][5].item<std::uint8_t>(), format), -largest(format));
    EXPECT_FLOAT_EQ(element(cast.as_is, 3, 5), -7e-6F);
    EXPECT_TRUE(at::equal(cast.transposed.bits, cast.as_is.bits.t()));
    EXPECT_TRUE(cast.transposed.bits.is_contiguous());
  }
}

TEST(Fp8Cast, RoundsEachElementByAtMostHalfAStep) {
  const at::Tensor matrix = random_matrix(32, 48, 2);
  const float most = matrix.abs().max().item<float>();
  for (const Format format : {Format::e4m3, Format::e5m2}) {
    const Matrix cast = fp8::cast(matrix, format, Orientations::as_is).as_is;
    const float step = format == Format::e4m3 ? 1.0F / 8 : 1.0F / 4;
    const float least = most / largest(format) * (format == Format::e4m3 ? std::exp2(-6.0F) : std::exp2(-14.0F));
    for (std::int64_t row = 0; row < 32; ++row) {
      for (std::int64_t column = 0; column < 48; ++column) {
        const float value = matrix[row][column].item<float>();
        const float room = std::max(std::abs(value), least) * step / 2;
        EXPECT_NEAR(element(cast, row, column), value, room * 1.0001F);
      }
    }
  }
}

TEST(Fp8Cast, OfZerosIsZero) {
  const Matrix zeros = fp8::cast(at::zeros({16, 16}), Format::e5m2, Orientations::as_is).as_is;
  EXPECT_EQ(product(zeros, zeros, at::kFloat, Accumulation::fp32).abs().max().item<float>(), 0);
}

TEST(Fp8Cast, DoesNotHideWhatIsNotANumber) {
  const Matrix ones = fp8::cast(at::ones({16, 16}), Format::e4m3, Orientations::as_is).as_is;
  for (const float strange : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const at::Tensor matrix = random_matrix(16, 16, 3);
    matrix[0][0] = strange;
    const Matrix cast = fp8::cast(matrix, Format::e4m3, Orientations::as_is).as_is;
    EXPECT_TRUE(std::isnan(product(cast, ones, at::kFloat, Accumulation::fp32)[0][0].item<float>()));
  }
}

TEST(Fp8Product, IsThatOfTheRoundedMatrices) {
  const Matrix a = fp8::cast(random_matrix(16, 32, 4), Format::e5m2, Orientations::as_is).as_is;
  const Matrix b = fp8::cast(random_matrix(48, 32, 5, 0.02), Format::e4m3, Orientations::as_is).as_is;
  const at::Tensor result = product(a, b, at::kFloat, Accumulation::fp32);
  const at::Tensor sum = at::ones({16, 48});
  add_product(sum, a, b);
  for (std::int64_t row = 0; row < 16; ++row) {
    for (std::int64_t column = 0; column < 48; ++column) {
      double expected = 0;
      for (std::int64_t i = 0; i < 32; ++i) expected += double{element(a, row, i)} * element(b, column, i);
      EXPECT_NEAR(result[row][column].item<float>(), expected, 1e-6);
      EXPECT_NEAR(sum[row][column].item<float>(), 1 + expected, 1e-6);
    }
  }
}

}  // namespace
}  // namespace lowgear::trainer::fp8
