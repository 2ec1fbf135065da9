#pragma once

#include <chrono>
#include <cstdio>
#include <source_location>
#include <thread>

namespace lowgear {

/// Longer than ctest lets a test run (CMakePresets.json), which is the only limit: for what asks for a time, and for
/// limits of the code under test that are not to matter.
inline constexpr std::chrono::hours kPatience{1};

/// Waits until the condition holds; false when it does not within kPatience. Writes every minute where it waits: ctest
/// shows the last lines of a test that it ends.
template <typename Condition>
[[nodiscard]] bool eventually(Condition condition, std::source_location where = std::source_location::current()) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  auto noted = begin;
  while (!condition()) {
    const auto now = Clock::now();
    if (now - begin > kPatience) return false;
    if (now - noted > std::chrono::minutes(1)) {
      noted = now;
      (void)std::fprintf(stderr, "%s:%u: still waiting\n", where.file_name(), static_cast<unsigned>(where.line()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace lowgear
