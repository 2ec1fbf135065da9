#pragma once

#include <cstdint>

namespace lowgear::trainer::fp8 {

/// The two formats of Micikevicius et al. 2022, "FP8 Formats for Deep Learning".
enum class Format : unsigned char {
  e4m3,  ///< 4 bits of exponent, 3 of mantissa; no infinity: what is above 0x7e is NaN
  e5m2   ///< 5 and 2, as IEEE's formats are
};

/// The largest finite number: 448 or 57344.
[[nodiscard]] float largest(Format format);

/// The nearest number of the format, ties to the even mantissa. What is larger than the largest number, also infinity,
/// becomes that number; NaN stays NaN.
[[nodiscard]] std::uint8_t encode(float value, Format format);

/// The number that the bits mean.
[[nodiscard]] float decode(std::uint8_t bits, Format format);

}  // namespace lowgear::trainer::fp8
