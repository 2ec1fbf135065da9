#pragma once

#include <cstdint>
#include <vector>

namespace lowgear::client {

/// Time during which at least one of several stretches lasted: where two overlap it counts once.
class CoveredTime {
 public:
  /// Stretches are added in the order of their ends.
  void add(std::uint64_t begin_ns, std::uint64_t end_ns) {
    while (!apart_.empty() && apart_.back().begin_ns >= begin_ns) {
      covered_ns_ -= apart_.back().end_ns - apart_.back().begin_ns;
      apart_.pop_back();
    }
    if (!apart_.empty() && apart_.back().end_ns >= begin_ns) {
      covered_ns_ += end_ns - apart_.back().end_ns;
      apart_.back().end_ns = end_ns;
      return;
    }
    covered_ns_ += end_ns - begin_ns;
    apart_.push_back({begin_ns, end_ns});
  }
  [[nodiscard]] std::uint64_t covered_ns() const { return covered_ns_; }

 private:
  struct Stretch {
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
  };
  std::vector<Stretch> apart_;  ///< rising
  std::uint64_t covered_ns_ = 0;
};

}  // namespace lowgear::client
