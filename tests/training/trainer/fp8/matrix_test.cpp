#include "training/trainer/fp8/matrix.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <random>
#include <vector>

namespace lowgear::trainer::fp8 {

void PrintTo(Format format, std::ostream* out) { *out << (format == Format::e4m3 ? "e4m3" : "e5m2"); }

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::uint8_t kSign = 0x80;

/// Bits of the largest finite number, from the paper's table.
std::uint8_t last_bits(Format format) { return format == Format::e4m3 ? 0x7e : 0x7b; }

class EveryFormat : public testing::TestWithParam<Format> {};

TEST(Fp8Number, HasTheValuesOfThePaper) {
  for (const auto& [bits, value] : std::vector<std::pair<int, double>>{{0x00, 0},
                                                                       {0x01, std::exp2(-9)},
                                                                       {0x07, 0.875 * std::exp2(-6)},
                                                                       {0x08, std::exp2(-6)},
                                                                       {0x38, 1},
                                                                       {0x39, 1.125},
                                                                       {0x7e, 448},
                                                                       {0xfe, -448}}) {
    EXPECT_EQ(decode(static_cast<std::uint8_t>(bits), Format::e4m3), value) << bits;
  }
  for (const auto& [bits, value] : std::vector<std::pair<int, double>>{{0x01, std::exp2(-16)},
                                                                       {0x03, 0.75 * std::exp2(-14)},
                                                                       {0x04, std::exp2(-14)},
                                                                       {0x3c, 1},
                                                                       {0x3d, 1.25},
                                                                       {0x7b, 57344},
                                                                       {0x7c, kInfinity},
                                                                       {0xfc, -kInfinity}}) {
    EXPECT_EQ(decode(static_cast<std::uint8_t>(bits), Format::e5m2), value) << bits;
  }
  EXPECT_TRUE(std::isnan(decode(0x7f, Format::e4m3)) && std::isnan(decode(0xff, Format::e4m3)));
  EXPECT_TRUE(std::isnan(decode(0x7d, Format::e5m2)) && std::isnan(decode(0xff, Format::e5m2)));
  EXPECT_EQ(largest(Format::e4m3), 448);
  EXPECT_EQ(largest(Format::e5m2), 57344);
}

TEST_P(EveryFormat, KeepsEachOfItsNumbers) {
  for (int i = 0; i < 256; ++i) {
    const auto bits = static_cast<std::uint8_t>(i);
    const float value = decode(bits, GetParam());
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(decode(encode(value, GetParam()), GetParam()))) << i;
    } else if (std::isinf(value)) {
      EXPECT_EQ(encode(value, GetParam()), (bits & kSign) | last_bits(GetParam()));
    } else {
      EXPECT_EQ(encode(value, GetParam()), bits) << i;
    }
  }
}

TEST_P(EveryFormat, RoundsBetweenNeighboursToTheNearestAndTiesToEven) {
  for (std::uint8_t bits = 0; bits < last_bits(GetParam()); ++bits) {
    const float low = decode(bits, GetParam());
    const float high = decode(bits + 1, GetParam());
    ASSERT_LT(low, high);
    const float middle = (low + high) / 2;  // exact
    const std::uint8_t even = bits % 2 == 0 ? bits : bits + 1;
    EXPECT_EQ(encode(middle, GetParam()), even) << middle;
    EXPECT_EQ(encode(-middle, GetParam()), even | kSign) << middle;
    EXPECT_EQ(encode(std::nextafter(middle, 0.0F), GetParam()), bits) << middle;
    EXPECT_EQ(encode(std::nextafter(middle, kInfinity), GetParam()), bits + 1) << middle;
  }
}

TEST_P(EveryFormat, TakesTheNearestOfAllNumbers) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-20, 18);
  std::vector<std::uint8_t> numbers;
  for (int bits = 0; bits <= last_bits(GetParam()); ++bits) numbers.push_back(static_cast<std::uint8_t>(bits));
  for (int i = 0; i < 3000; ++i) {
    const float value = std::exp2(exponent(random));
    float least = kInfinity;
    for (const std::uint8_t bits : numbers) least = std::min(least, std::abs(decode(bits, GetParam()) - value));
    EXPECT_EQ(std::abs(decode(encode(value, GetParam()), GetParam()) - value), least) << value;
  }
}

TEST_P(EveryFormat, EndsAtTheLargestNumber) {
  EXPECT_EQ(encode(1e30F, GetParam()), last_bits(GetParam()));
  EXPECT_EQ(encode(-kInfinity, GetParam()), last_bits(GetParam()) | kSign);
  EXPECT_EQ(encode(1e-30F, GetParam()), 0);
  EXPECT_EQ(encode(-0.0F, GetParam()), kSign);
}

INSTANTIATE_TEST_SUITE_P(Fp8Number, EveryFormat, testing::Values(Format::e4m3, Format::e5m2));

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
