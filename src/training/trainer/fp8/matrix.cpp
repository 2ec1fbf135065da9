#include "training/trainer/fp8/matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lowgear::trainer::fp8 {
namespace {

struct Layout {
  int mantissa_bits;
  int bias;
  std::uint8_t largest;  ///< bits of the largest finite number

  [[nodiscard]] int least_exponent() const { return 1 - bias; }
};

constexpr std::uint8_t kNan = 0x7f;
constexpr std::uint8_t kSign = 0x80;
constexpr std::uint8_t kE5m2Infinity = 0x7c;

Layout layout_of(Format format) { return format == Format::e4m3 ? Layout{3, 7, 0x7e} : Layout{2, 15, 0x7b}; }

}  // namespace

float largest(Format format) { return decode(layout_of(format).largest, format); }

std::uint8_t encode(float value, Format format) {
  const Layout layout = layout_of(format);
  const std::uint8_t sign = std::signbit(value) ? kSign : 0;
  if (std::isnan(value)) return sign | kNan;
  const float magnitude = std::abs(value);
  if (magnitude >= largest(format)) return sign | layout.largest;
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), layout.least_exponent());
  // Of the smallest step at this exponent; exact, and nearbyint rounds ties to even.
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, layout.mantissa_bits - exponent)));
  // The implicit one is the exponent field's first step, so that subnormals and carries need no case of their own.
  const int field = exponent - layout.least_exponent();
  return sign | static_cast<std::uint8_t>((field << layout.mantissa_bits) + steps);
}

float decode(std::uint8_t bits, Format format) {
  const Layout layout = layout_of(format);
  const auto magnitude = static_cast<std::uint8_t>(bits & ~kSign);
  const float sign = (bits & kSign) != 0 ? -1.0F : 1.0F;
  if (magnitude > layout.largest) {
    const bool infinite = format == Format::e5m2 && magnitude == kE5m2Infinity;
    return sign * (infinite ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN());
  }
  const int field = magnitude >> layout.mantissa_bits;
  const int mantissa = magnitude & ((1 << layout.mantissa_bits) - 1);
  const int steps = field == 0 ? mantissa : mantissa + (1 << layout.mantissa_bits);
  const int exponent = layout.least_exponent() + std::max(field - 1, 0);
  return sign * std::ldexp(static_cast<float>(steps), exponent - layout.mantissa_bits);
}

}  // namespace lowgear::trainer::fp8
