#include "base/core/monotonic_clock.h"

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

TEST(MonotonicClock, TellsSecondsOfTheSameTime) {
  const double before_s = static_cast<double>(monotonic_ns()) * 1e-9;
  const double now_s = monotonic_s();
  EXPECT_LE(before_s, now_s);
  EXPECT_LE(now_s, static_cast<double>(monotonic_ns()) * 1e-9);
}

}  // namespace
}  // namespace lowgear
