#include "base/core/monotonic_clock.h"

#include <ctime>
#include <fstream>

namespace lowgear {

std::int64_t monotonic_ns() noexcept {
  constexpr std::int64_t kNsPerS = 1'000'000'000;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * kNsPerS + now.tv_nsec;
}

double monotonic_s() noexcept { return static_cast<double>(monotonic_ns()) * 1e-9; }

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

}  // namespace lowgear
