#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/core/random.h"

namespace lowgear::client {

/// How long to wait before something is tried again: twice as long each time, from `first` to `last`, each time between
/// half and all of that, so that thousands of processes that lost the same server do not reconnect at the same time.
class Backoff {
 public:
  Backoff(std::chrono::milliseconds first, std::chrono::milliseconds last, std::uint64_t seed)
      : first_(first), last_(last), next_(first), random_(seed) {}

  [[nodiscard]] std::chrono::milliseconds next() {
    random_ = random_bits(random_);
    const double share = 0.5 + 0.5 * static_cast<double>(random_ >> 11U) * 0x1p-53;
    const auto wait = std::chrono::milliseconds(static_cast<long>(share * static_cast<double>(next_.count())));
    next_ = std::min(2 * next_, last_);
    return wait;
  }
  /// It worked: the next time is the first again.
  void reset() { next_ = first_; }

 private:
  std::chrono::milliseconds first_;
  std::chrono::milliseconds last_;
  std::chrono::milliseconds next_;
  std::uint64_t random_;
};

}  // namespace lowgear::client
