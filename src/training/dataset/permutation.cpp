#include "training/dataset/permutation.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/core/error.h"
#include "base/core/random.h"

namespace lowgear::dataset {
namespace {

constexpr std::uint64_t kRounds = 8;

}  // namespace

Permutation::Permutation(std::int64_t size, std::uint64_t seed)
    : size_(static_cast<std::uint64_t>(size)), seed_(random_bits(seed)) {
  if (size < 1) throw Error(fmt::format("an order of {} things", size));
  const auto bits = static_cast<unsigned>(std::bit_width(size_ - 1));
  half_bits_ = std::max(1U, (bits + 1) / 2);
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    // Round and half share no bits: a half has at most 32.
    const std::uint64_t mixed = random_bits(seed_ ^ random_bits(round << 32U | right));
    const std::uint64_t next = left ^ (mixed & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  if (position < 0 || static_cast<std::uint64_t>(position) >= size_) {
    throw Error(fmt::format("position {} of an order of {} things", position, size_));
  }
  auto value = static_cast<std::uint64_t>(position);
  do {
    value = encrypt(value);
  } while (value >= size_);
  return static_cast<std::int64_t>(value);
}

}  // namespace lowgear::dataset
