#pragma once

#include <chrono>
#include <cstddef>
#include <utility>

namespace lowgear::server {

/// Decides which refused requests are written one by one: the first ones of each second.
class RefusalLimit {
 public:
  static constexpr std::size_t kPerSecond = 50;

  /// Whether this one is; otherwise it is counted.
  [[nodiscard]] bool admit(std::chrono::system_clock::time_point time) {
    const auto second = std::chrono::floor<std::chrono::seconds>(time);
    if (second != second_) admitted_ = 0;
    second_ = second;
    if (admitted_ < kPerSecond) {
      ++admitted_;
      return true;
    }
    ++suppressed_;
    return false;
  }

  /// How many were not written, when the second in which they came is over, or at the end; once. Else 0.
  [[nodiscard]] std::size_t take_suppressed(std::chrono::system_clock::time_point time) {
    if (std::chrono::floor<std::chrono::seconds>(time) == second_) return 0;
    return std::exchange(suppressed_, 0);
  }

 private:
  std::chrono::sys_seconds second_{};
  std::size_t admitted_ = 0;
  std::size_t suppressed_ = 0;
};

}  // namespace lowgear::server
