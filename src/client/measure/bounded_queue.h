#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lowgear::client {

/// Hands values from one thread to another. Allocated once; when it is full, values are counted as lost. One thread
/// pushes, one pops; neither waits.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): what either thread writes has cache lines of its own
template <typename Value, std::size_t kSlots>
class BoundedQueue {
 public:
  static constexpr std::size_t kCapacity = kSlots;

  BoundedQueue() : slots_(kCapacity) {}

  /// The pushing thread's: whether there is room. Counts a value as lost when there is none.
  [[nodiscard]] bool make_room() noexcept {
    const std::uint64_t pushed = pushed_.load(std::memory_order_relaxed);
    if (pushed - popped_seen_ < kCapacity) return true;
    popped_seen_ = popped_.load(std::memory_order_acquire);
    if (pushed - popped_seen_ < kCapacity) return true;
    lost_.store(lost_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return false;
  }

  void push(const Value& value) noexcept {
    if (!make_room()) return;
    const std::uint64_t pushed = pushed_.load(std::memory_order_relaxed);
    slots_[pushed % kCapacity] = value;
    pushed_.store(pushed + 1, std::memory_order_release);
  }

  [[nodiscard]] bool pop(Value& value) noexcept {
    const std::uint64_t popped = popped_.load(std::memory_order_relaxed);
    if (popped == pushed_.load(std::memory_order_acquire)) return false;
    value = slots_[popped % kCapacity];
    popped_.store(popped + 1, std::memory_order_release);
    return true;
  }

  [[nodiscard]] std::uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  std::vector<Value> slots_;
  alignas(64) std::atomic<std::uint64_t> pushed_{0};
  std::uint64_t popped_seen_ = 0;  ///< by the pushing thread
  std::atomic<std::uint64_t> lost_{0};
  alignas(64) std::atomic<std::uint64_t> popped_{0};
};

}  // namespace lowgear::client
