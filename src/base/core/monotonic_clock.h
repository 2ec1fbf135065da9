#pragma once

#include <cstdint>
#include <ctime>

namespace lowgear {

/// CLOCK_MONOTONIC in nanoseconds: all processes of a machine read the same clock, so that they can share times. The
/// vDSO reads it without a system call.
[[nodiscard]] inline std::int64_t monotonic_ns() noexcept {
  constexpr std::int64_t kNsPerS = 1'000'000'000;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * kNsPerS + now.tv_nsec;
}

/// CLOCK_MONOTONIC in seconds.
[[nodiscard]] inline double monotonic_s() noexcept { return static_cast<double>(monotonic_ns()) * 1e-9; }

}  // namespace lowgear
