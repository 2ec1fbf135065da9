#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lowgear::ipc {

/// The shared memory between a training process and the agent: the process marks the units that it starts, the agent
/// reads the marks and sets clocks. One writer (the training thread), one reader (the agent's thread of that GPU). The
/// writer never waits: a reader that is more than kUnitRingCapacity events late loses the oldest, which are stale.
///
/// The memory belongs to the agent (a sealed memfd, so that the client cannot shrink it) and is writable by the client,
/// so the reader treats every byte as hostile.
inline constexpr std::uint32_t kUnitRingMagic = 0x4c475231;  // "LGR1"
inline constexpr std::uint32_t kUnitRingVersion = 1;
inline constexpr std::size_t kUnitRingCapacity = 1024;  ///< events; a power of two

enum class UnitEventType : std::uint8_t { unit_begin = 1, unit_end = 2, iteration_begin = 3, iteration_end = 4 };

/// 16 bytes, so that an event never crosses a cache line.
struct UnitEvent {
  std::uint64_t time_ns = 0;  ///< CLOCK_MONOTONIC when it happened
  UnitEventType type = UnitEventType::unit_begin;
  std::uint8_t kind = 0;         ///< number of an OpKind
  std::uint16_t stage = 0;       ///< virtual stage
  std::uint32_t microbatch = 0;  ///< of unit events; the number of the iteration of iteration events, modulo 2^32
};
static_assert(sizeof(UnitEvent) == 16);

/// Written by the agent for the client's recording: the requested and the applied clock differ in time.
enum class RingState : std::uint32_t { active = 1, suspended = 2, ended = 3 };

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): what either side writes has cache lines of its own
struct UnitRing {
  std::uint32_t magic = kUnitRingMagic;
  std::uint32_t version = kUnitRingVersion;
  std::uint32_t capacity = kUnitRingCapacity;
  std::uint32_t reserved = 0;
  alignas(64) std::atomic<std::uint64_t> written{0};  ///< events ever written; by the client
  alignas(64) std::atomic<std::uint32_t> state{0};    ///< RingState; by the agent
  std::atomic<std::uint32_t> requested_clock_mhz{0};  ///< for the newest unit; by the agent; 0: the driver's choice
  std::atomic<std::uint64_t> applied_time_ns{0};      ///< when the driver took the last request; by the agent
  /// Number of unit starts that the plan does not name and that got no clock, and the newest of them, packed; by the
  /// agent.
  std::atomic<std::uint64_t> unplanned_units{0};
  std::atomic<std::uint64_t> unplanned_unit{0};
  /// 1 while the GPU runs at other clocks than the plan's: the driver has refused them, or another program sets the
  /// clocks; by the agent.
  std::atomic<std::uint32_t> clocks_not_held{0};
  struct Slot {
    std::atomic<std::uint64_t> time_ns{0};
    std::atomic<std::uint64_t> unit{0};  ///< the other fields, packed
  };
  alignas(64) std::array<Slot, kUnitRingCapacity> slots;
};

/// Pack an event without its time, and unpack it. They keep unknown types and kinds: the reader checks.
[[nodiscard]] constexpr std::uint64_t pack_unit(const UnitEvent& event) {
  return static_cast<std::uint64_t>(event.type) | static_cast<std::uint64_t>(event.kind) << 8U |
         static_cast<std::uint64_t>(event.stage) << 16U | static_cast<std::uint64_t>(event.microbatch) << 32U;
}
[[nodiscard]] constexpr UnitEvent unpack_unit(std::uint64_t time_ns, std::uint64_t unit) {
  return {.time_ns = time_ns,
          .type = static_cast<UnitEventType>(unit & 0xffU),
          .kind = static_cast<std::uint8_t>(unit >> 8U & 0xffU),
          .stage = static_cast<std::uint16_t>(unit >> 16U & 0xffffU),
          .microbatch = static_cast<std::uint32_t>(unit >> 32U)};
}

/// Appends an event: no system call, no allocation, no wait.
inline void write_unit(UnitRing& ring, const UnitEvent& event) noexcept {
  const std::uint64_t index = ring.written.load(std::memory_order_relaxed);
  UnitRing::Slot& slot = ring.slots[index & (kUnitRingCapacity - 1)];
  // Release order, so that a reader of a new value in a slot also sees the earlier value of the counter.
  slot.time_ns.store(event.time_ns, std::memory_order_release);
  slot.unit.store(pack_unit(event), std::memory_order_release);
  ring.written.store(index + 1, std::memory_order_release);
}

/// The reading end. Copies new events; events that the writer has overwritten meanwhile count as lost.
class UnitRingReader {
 public:
  explicit UnitRingReader(UnitRing& ring) : ring_(&ring) {}

  struct Batch {
    std::size_t events = 0;  ///< number of events in the buffer, oldest first
    std::uint64_t lost = 0;  ///< number of events that were overwritten before they were read
  };
  /// Reads the newest events, at most `buffer.size()`; older ones count as lost. A counter that runs backwards or jumps
  /// (a malicious or restarted writer) never causes a read outside of the ring.
  [[nodiscard]] Batch read(std::span<UnitEvent> buffer) noexcept;

 private:
  UnitRing* ring_;
  std::uint64_t seen_ = 0;
};

}  // namespace lowgear::ipc
