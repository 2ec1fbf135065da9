#include "core/monotonic_clock.h"

#include <gtest/gtest.h>
#include <time.h>

namespace lowgear {
namespace {

TEST(MonotonicClock, IsTheOneThatProcessesShare) {
  const auto system_ns = [] {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
  };
  const long long before_ns = system_ns();
  const long long now_ns = monotonic_ns();
  EXPECT_LE(before_ns, now_ns);
  EXPECT_LE(now_ns, system_ns());
}

}  // namespace
}  // namespace lowgear
