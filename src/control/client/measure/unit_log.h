#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ipc/unit_ring.h"

namespace lowgear::client {

enum class RecordType : std::uint8_t { unit, iteration_begin, iteration_end };

/// A unit or an iteration that is over, or an iteration that begins.
struct UnitRecord {
  std::uint64_t begin_ns = 0;  ///< CLOCK_MONOTONIC
  std::uint64_t end_ns = 0;    ///< of an iteration that begins: the same
  std::uint64_t iteration = 0;
  std::uint32_t microbatch = 0;
  std::uint32_t clock_mhz = 0;  ///< SM clock that the agent had asked for when it ended; 0: none
  std::uint16_t stage = 0;
  std::uint8_t kind = 0;
  RecordType type = RecordType::unit;
  bool settling = false;  ///< of an iteration in which clocks settle
};

/// Passes records from the training thread to the thread that writes them. Allocated once; when it is full, records are
/// counted as lost. One thread pushes, one pops.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): what either thread writes has cache lines of its own
class UnitLog {
 public:
  static constexpr std::size_t kCapacity = std::size_t{1} << 15U;

  UnitLog() : slots_(kCapacity) {}

  void push(const UnitRecord& record) noexcept {
    const std::uint64_t pushed = pushed_.load(std::memory_order_relaxed);
    if (pushed - popped_seen_ >= kCapacity) {
      popped_seen_ = popped_.load(std::memory_order_acquire);
      if (pushed - popped_seen_ >= kCapacity) {
        lost_.store(lost_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return;
      }
    }
    slots_[pushed % kCapacity] = record;
    pushed_.store(pushed + 1, std::memory_order_release);
  }

  [[nodiscard]] bool pop(UnitRecord& record) noexcept {
    const std::uint64_t popped = popped_.load(std::memory_order_relaxed);
    if (popped == pushed_.load(std::memory_order_acquire)) return false;
    record = slots_[popped % kCapacity];
    popped_.store(popped + 1, std::memory_order_release);
    return true;
  }

  [[nodiscard]] std::uint64_t pushed() const { return pushed_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  std::vector<UnitRecord> slots_;
  alignas(64) std::atomic<std::uint64_t> pushed_{0};
  std::uint64_t popped_seen_ = 0;  ///< by the pushing thread
  std::atomic<std::uint64_t> lost_{0};
  alignas(64) std::atomic<std::uint64_t> popped_{0};
};

}  // namespace lowgear::client
