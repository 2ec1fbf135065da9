#pragma once

#include <atomic>
#include <cstdint>

namespace lowgear::client {

/// Numbers of steps as they begin, from 0 to profile::kMaxIteration: the training thread writes them, others read.
class BegunSteps {
 public:
  /// Steps that began one after the other, up to the newest one. None has begun: `newest` is one below `first`.
  struct Run {
    std::int32_t first = 0;
    std::int32_t newest = -1;

    [[nodiscard]] bool is_empty() const noexcept { return newest < first; }
    /// Whether training went back to a checkpoint after this, an earlier one, was read.
    [[nodiscard]] bool goes_back_in(const Run& later) const noexcept {
      return later.newest < newest || (later.first != first && later.first <= newest);
    }
  };

  /// Before the first step, of this number.
  void expect(std::int64_t first_step) noexcept {
    const auto first = static_cast<std::int32_t>(first_step);
    run_.store({first, first - 1}, std::memory_order_release);
  }
  /// Neither waits nor makes a system call.
  void begins(std::int64_t step) noexcept {
    Run run = run_.load(std::memory_order_relaxed);
    const auto number = static_cast<std::int32_t>(step);
    if (number != run.newest + 1) run.first = number;
    run.newest = number;
    run_.store(run, std::memory_order_release);
  }
  [[nodiscard]] Run run() const noexcept { return run_.load(std::memory_order_acquire); }

 private:
  std::atomic<Run> run_{Run{}};
  static_assert(std::atomic<Run>::is_always_lock_free);
};

}  // namespace lowgear::client
