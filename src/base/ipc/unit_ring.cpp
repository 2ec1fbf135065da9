#include "base/ipc/unit_ring.h"

#include <algorithm>

namespace lowgear::ipc {

UnitRingReader::Batch UnitRingReader::read(std::span<UnitEvent> buffer) noexcept {
  const std::uint64_t written = ring_->written.load(std::memory_order_acquire);
  if (written == seen_) return {};
  // A counter that ran backwards starts over: whatever it stood at before says nothing any more.
  const std::uint64_t unseen = written > seen_ ? written - seen_ : std::min<std::uint64_t>(written, kUnitRingCapacity);
  std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>({unseen, kUnitRingCapacity, buffer.size()}));
  const std::uint64_t first = written - count;
  for (std::size_t i = 0; i < count; ++i) {
    const UnitRing::Slot& slot = ring_->slots[(first + i) & (kUnitRingCapacity - 1)];
    buffer[i] = unpack_unit(slot.time_ns.load(std::memory_order_acquire), slot.unit.load(std::memory_order_acquire));
  }
  // The writer may have come round meanwhile. The event that it is writing now is not counted in `written` yet, so one
  // more slot than it says may be torn.
  const std::uint64_t now = ring_->written.load(std::memory_order_relaxed);
  const std::uint64_t oldest_whole = now + 1 > kUnitRingCapacity ? now + 1 - kUnitRingCapacity : 0;
  const bool overtaken = now >= written && oldest_whole > first;
  const auto torn = overtaken ? static_cast<std::size_t>(std::min<std::uint64_t>(oldest_whole - first, count)) : 0;
  std::move(buffer.begin() + static_cast<std::ptrdiff_t>(torn), buffer.begin() + static_cast<std::ptrdiff_t>(count),
            buffer.begin());
  count -= torn;
  seen_ = written;
  return {.events = count, .lost = unseen - count};
}

}  // namespace lowgear::ipc
