#pragma once

#include <cstdint>

namespace lowgear::dataset {

/// A random order of 0 ... size-1 that takes no memory, however large: a Feistel network of eight rounds (Luby and
/// Rackoff 1988) over the smallest even number of bits that holds `size`, walked along its cycle until the value lies
/// within (Black and Rogaway 2002, section 3). Less than four steps on average, as the bits hold fewer than 4 x `size`
/// values.
class Permutation {
 public:
  /// `size` at least 1. Each `seed` gives another order.
  Permutation(std::int64_t size, std::uint64_t seed);

  /// What stands at `position`, in [0, size).
  [[nodiscard]] std::int64_t operator()(std::int64_t position) const;

 private:
  [[nodiscard]] std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  std::uint64_t seed_;
  unsigned half_bits_;
};

}  // namespace lowgear::dataset
