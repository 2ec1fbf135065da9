#include "training/trainer/fp8/number.h"

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

}  // namespace
}  // namespace lowgear::trainer::fp8
