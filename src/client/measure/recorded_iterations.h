#pragma once

#include <cstdint>

namespace lowgear::client {

/// Which iterations a recording has: `count` of them from `first` on.
struct RecordedIterations {
  std::uint64_t first = 0;
  std::uint64_t count = UINT64_MAX;

  [[nodiscard]] bool contains(std::uint64_t iteration) const noexcept {
    return iteration >= first && iteration - first < count;
  }
  /// Whether it contains this iteration or one next to it. Energy is known between samples, so that the recorded
  /// iterations need some of their neighbours.
  [[nodiscard]] bool contains_near(std::uint64_t iteration) const noexcept {
    return contains(iteration) || contains(iteration + 1) || (iteration > 0 && contains(iteration - 1));
  }
};

}  // namespace lowgear::client
