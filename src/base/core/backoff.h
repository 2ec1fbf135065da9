#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/core/probability.h"

namespace lowgear {

/// Times to wait before the next try: `first`, then twice as long each time, up to `last`.
template <typename Time>
class Backoff {
 public:
  Backoff(Time first, Time last) : first_(first), last_(last), next_(first) {}

  [[nodiscard]] Time next() { return std::exchange(next_, std::min<Time>(2 * next_, last_)); }
  /// After a success: the next time is `first` again.
  void reset() { next_ = first_; }

 private:
  Time first_;
  Time last_;
  Time next_;
};

/// Backoff with random times between half and all of a Backoff's, so that thousands of processes that lost the same
/// server do not reconnect at the same time.
class ScatteredBackoff {
 public:
  ScatteredBackoff(std::chrono::milliseconds first, std::chrono::milliseconds last, std::uint64_t seed)
      : backoff_(first, last), random_(seed) {}

  [[nodiscard]] std::chrono::milliseconds next() {
    random_ = random_bits(random_);
    const double share = 0.5 + 0.5 * static_cast<double>(random_ >> 11U) * 0x1p-53;
    return std::chrono::milliseconds(static_cast<long>(share * static_cast<double>(backoff_.next().count())));
  }
  void reset() { backoff_.reset(); }

 private:
  Backoff<std::chrono::milliseconds> backoff_;
  std::uint64_t random_;
};

}  // namespace lowgear
