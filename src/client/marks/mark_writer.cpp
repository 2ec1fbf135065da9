#include "client/marks/mark_writer.h"

#include <utility>

#include "base/core/monotonic_clock.h"

namespace lowgear::client {
namespace {

ipc::UnitEvent event_of(const Mark& mark) noexcept {
  return {.time_ns = mark.time_ns, .type = mark.type, .microbatch = static_cast<std::uint32_t>(mark.number)};
}

/// The same for the begin and the end of a unit, and never 0.
std::uint64_t identity_of(OpKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept {
  return ipc::pack_unit({.type = ipc::UnitEventType::unit_begin,
                         .kind = static_cast<std::uint8_t>(kind),
                         .stage = stage,
                         .microbatch = microbatch});
}

}  // namespace

inline void MarkWriter::write_begin(std::uint64_t time_ns, OpKind kind, std::uint16_t stage,
                                    std::uint32_t microbatch) noexcept {
  if (ipc::UnitRing* ring = this->ring()) {
    ipc::write_unit(*ring, {.time_ns = time_ns,
                            .type = ipc::UnitEventType::unit_begin,
                            .kind = static_cast<std::uint8_t>(kind),
                            .stage = stage,
                            .microbatch = microbatch});
  }
  const std::uint64_t unit = identity_of(kind, stage, microbatch);
  OpenUnit& open = place_of(unit);
  if (open.unit != 0) count_mismatch();
  open.unit = unit;
  open.begin_ns = time_ns;
}

inline void MarkWriter::write_end(std::uint64_t time_ns, OpKind kind, std::uint16_t stage,
                                  std::uint32_t microbatch) noexcept {
  const std::uint64_t unit = identity_of(kind, stage, microbatch);
  OpenUnit& open = open_[0].unit == unit ? open_[0] : open_[1];
  if (open.unit != unit) return count_mismatch();
  open.unit = 0;
  units_.store(units_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  ipc::UnitRing* const ring = this->ring();
  if (ring != nullptr) {
    ipc::write_unit(*ring, {.time_ns = time_ns,
                            .type = ipc::UnitEventType::unit_end,
                            .kind = static_cast<std::uint8_t>(kind),
                            .stage = stage,
                            .microbatch = microbatch});
  }
  if (log_ == nullptr) return;
  log_->push({.begin_ns = open.begin_ns,
              .end_ns = time_ns,
              .iteration = iteration_,
              .microbatch = microbatch,
              .clock_mhz = ring != nullptr ? ring->requested_clock_mhz.load(std::memory_order_relaxed) : 0,
              .stage = stage,
              .kind = kind,
              .settling = settling_});
}

void MarkWriter::begin_unit(OpKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept {
  write_begin(static_cast<std::uint64_t>(monotonic_ns()), kind, stage, microbatch);
}

void MarkWriter::end_unit(OpKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept {
  write_end(static_cast<std::uint64_t>(monotonic_ns()), kind, stage, microbatch);
}

void MarkWriter::take(const Mark& mark) noexcept {
  const auto number = static_cast<std::uint32_t>(mark.number);
  switch (mark.type) {
    case ipc::UnitEventType::unit_begin:
      return write_begin(mark.time_ns, mark.kind, mark.stage, number);
    case ipc::UnitEventType::unit_end:
      return write_end(mark.time_ns, mark.kind, mark.stage, number);
    case ipc::UnitEventType::iteration_begin:
      return begin_iteration(mark);
    case ipc::UnitEventType::iteration_end:
      return end_iteration(mark);
  }
}

void MarkWriter::begin_iteration(const Mark& mark) noexcept {
  for (OpenUnit& open : open_) {
    if (std::exchange(open.unit, 0) != 0) count_mismatch();
  }
  iteration_ = mark.number;
  iteration_begin_ns_ = mark.time_ns;
  units_before_ = units();
  settling_ = mark.settling;
  if (lease_ != nullptr) lease_->iteration_begins(iteration_);
  if (ipc::UnitRing* ring = this->ring()) write_unit(*ring, event_of(mark));
  log_iteration(RecordType::iteration_begin, mark.time_ns);
}

void MarkWriter::end_iteration(const Mark& mark) noexcept {
  if (ipc::UnitRing* ring = this->ring()) write_unit(*ring, event_of(mark));
  log_iteration(RecordType::iteration_end, mark.time_ns);
  iterations_.fetch_add(1, std::memory_order_relaxed);
  const bool has_units = units() > units_before_;
  if (has_units && lease_ != nullptr && lease_->follows_plan()) planned_.fetch_add(1, std::memory_order_relaxed);
  ++iteration_;
}

MarkWriter::OpenUnit& MarkWriter::place_next_to_others(std::uint64_t unit) noexcept {
  OpenUnit& first = open_[0];
  OpenUnit& second = open_[1];
  if (second.unit == 0) return first.unit == unit ? first : second;
  if (second.unit == unit) return second;
  if (first.unit == 0 || first.unit == unit) return first;
  return first.begin_ns <= second.begin_ns ? first : second;
}

void MarkWriter::log_iteration(RecordType type, std::uint64_t end_ns) noexcept {
  const UnitRecord record{.begin_ns = iteration_begin_ns_, .end_ns = end_ns, .iteration = iteration_, .type = type};
  if (log_ != nullptr) log_->push(record);
  if (IterationLog* watched = watched_.load(std::memory_order_acquire)) watched->push(record);
}

}  // namespace lowgear::client
