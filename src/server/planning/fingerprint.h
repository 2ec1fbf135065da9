#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace lowgear::server {

/// A number that is equal for equal sequences of values, and hardly ever for others. Not against attackers.
class Fingerprint {
 public:
  /// The finalizer of MurmurHash3 (Appleby, public domain), on the sum with what came before.
  void add(std::uint64_t value) {
    value_ += 0x9e3779b97f4a7c15 + value;
    value_ = (value_ ^ (value_ >> 33U)) * 0xff51afd7ed558ccd;
    value_ = (value_ ^ (value_ >> 33U)) * 0xc4ceb9fe1a85ec53;
    value_ ^= value_ >> 33U;
  }
  /// 0 and -0 are equal.
  void add(double value) { add(std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value)); }
  [[nodiscard]] std::size_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace lowgear::server
