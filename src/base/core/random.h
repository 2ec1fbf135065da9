#pragma once

#include <cstdint>

namespace lowgear {

/// A random function of its input: SplitMix64 (Steele, Lea, Flood 2014). The same on every machine and in every
/// version, which the standard library's distributions are not.
[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

}  // namespace lowgear
