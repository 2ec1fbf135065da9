#pragma once

#include <cstdint>

namespace lowgear {

/// A random function of its input: SplitMix64 (Steele, Lea, Flood 2014). Every machine and version computes the same
/// bits, unlike the standard library's distributions.
[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

/// The value that a variable with Student's t distribution exceeds with probability 1 - `probability`, which is in
/// (0, 1), by the regularised incomplete beta function. `degrees_of_freedom` is positive and need not be whole.
[[nodiscard]] double student_t_quantile(double probability, double degrees_of_freedom);

}  // namespace lowgear
