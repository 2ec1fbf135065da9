#include "control/client/marks/mark_writer.h"

#include <utility>

namespace lowgear {
namespace {

UnitEvent event_of(const Mark& mark) noexcept {
  return {.time_ns = mark.time_ns,
          .type = mark.type,
          .kind = static_cast<std::uint8_t>(mark.kind),
          .stage = mark.stage,
          .microbatch = static_cast<std::uint32_t>(mark.number)};
}

/// The same for the begin and the end of a unit, and never 0.
std::uint64_t identity_of(const Mark& mark) noexcept {
  UnitEvent event = event_of(mark);
  event.type = UnitEventType::unit_begin;
  return pack_unit(event);
}

}  // namespace

void MarkWriter::take(const Mark& mark) noexcept {
  switch (mark.type) {
    case UnitEventType::unit_begin:
      return begin_unit(mark);
    case UnitEventType::unit_end:
      return end_unit(mark);
    case UnitEventType::iteration_begin:
      return begin_iteration(mark);
    case UnitEventType::iteration_end:
      return end_iteration(mark);
  }
}

void MarkWriter::begin_iteration(const Mark& mark) noexcept {
  for (OpenUnit* open : {&newest_, &older_}) {
    if (std::exchange(open->unit, 0) != 0) count_mismatch();
  }
  iteration_ = mark.number;
  iteration_begin_ns_ = mark.time_ns;
  settling_ = mark.settling;
  if (lease_ != nullptr) lease_->iteration_begins(iteration_);
  if (UnitRing* ring = this->ring()) write_unit(*ring, event_of(mark));
  log_iteration(RecordType::iteration_begin, mark.time_ns);
}

void MarkWriter::end_iteration(const Mark& mark) noexcept {
  if (UnitRing* ring = this->ring()) write_unit(*ring, event_of(mark));
  log_iteration(RecordType::iteration_end, mark.time_ns);
  ++iteration_;
}

void MarkWriter::begin_unit(const Mark& mark) noexcept {
  if (UnitRing* ring = this->ring()) write_unit(*ring, event_of(mark));
  const OpenUnit unit{.unit = identity_of(mark), .begin_ns = mark.time_ns};
  if (newest_.unit == unit.unit) {
    count_mismatch();
  } else {
    if (older_.unit != 0) count_mismatch();
    older_ = newest_;
  }
  newest_ = unit;
}

void MarkWriter::end_unit(const Mark& mark) noexcept {
  const std::uint64_t unit = identity_of(mark);
  if (newest_.unit != unit) std::swap(newest_, older_);
  if (newest_.unit != unit) {
    std::swap(newest_, older_);
    return count_mismatch();
  }
  const std::uint64_t begin_ns = newest_.begin_ns;
  newest_ = std::exchange(older_, OpenUnit());
  units_.store(units_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  UnitRing* const ring = this->ring();
  if (ring != nullptr) write_unit(*ring, event_of(mark));
  if (log_ == nullptr) return;
  log_->push({.begin_ns = begin_ns,
              .end_ns = mark.time_ns,
              .iteration = iteration_,
              .microbatch = static_cast<std::uint32_t>(mark.number),
              .clock_mhz = ring != nullptr ? ring->requested_clock_mhz.load(std::memory_order_relaxed) : 0,
              .stage = mark.stage,
              .kind = mark.kind,
              .settling = settling_});
}

void MarkWriter::log_iteration(RecordType type, std::uint64_t end_ns) noexcept {
  if (log_ == nullptr) return;
  log_->push({.begin_ns = iteration_begin_ns_, .end_ns = end_ns, .iteration = iteration_, .type = type});
}

}  // namespace lowgear
