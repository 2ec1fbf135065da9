#include "client/marks/training_marks.h"

#include <fmt/format.h>

#include <utility>

#include "base/core/monotonic_clock.h"

namespace lowgear::client {

namespace {

std::string describe(const std::optional<ExpectedUnit>& unit) {
  if (!unit) return "the end of the iteration";
  return fmt::format("{} {} of stage {}", name(unit->kind), unit->microbatch, unit->stage);
}

}  // namespace

void ExpectedUnits::expect(std::vector<ExpectedUnit> units, bool must_agree) {
  units_ = std::move(units);
  must_agree_ = must_agree;
  checks_ = false;
}

void ExpectedUnits::differ(const std::optional<ExpectedUnit>& got) noexcept {
  checks_ = false;
  differing_.store(differing_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (!has_first_.load(std::memory_order_relaxed)) {
    first_ = {.iteration = iteration_, .index = next_, .expected = std::nullopt, .got = got};
    if (next_ < units_.size()) first_.expected = units_[next_];
    has_first_.store(true, std::memory_order_release);
  }
  if (must_agree_) failed_.store(true, std::memory_order_release);
}

std::string ExpectedUnits::first_difference() const {
  if (!has_first_.load(std::memory_order_acquire)) return {};
  return fmt::format("iteration {}, unit {}: expected {}, got {}", first_.iteration, first_.index,
                     describe(first_.expected), describe(first_.got));
}

namespace {

std::uint64_t mark_time_ns() noexcept { return static_cast<std::uint64_t>(monotonic_ns()); }

}  // namespace

void TrainingMarks::iteration_begin(const IterationLabel& label) noexcept {
  if (in_iteration_) writer_.count_mismatch();
  in_iteration_ = true;
  iteration_ = label.number;
  next_.begin_iteration();
  expected_.iteration_begins(label.number);
  pass_on({.time_ns = mark_time_ns(),
           .number = label.number,
           .type = ipc::UnitEventType::iteration_begin,
           .settling = label.settling});
}

void TrainingMarks::iteration_end() noexcept {
  if (!in_iteration_) return writer_.count_mismatch();
  expected_.iteration_ends();
  pass_on({.time_ns = mark_time_ns(), .number = iteration_, .type = ipc::UnitEventType::iteration_end});
  ++iteration_;
  in_iteration_ = false;
}

std::optional<std::uint32_t> TrainingMarks::next_begin(OpKind kind, std::uint16_t stage) noexcept {
  const std::optional<std::uint32_t> microbatch = next_.begin(kind, stage);
  if (!microbatch) writer_.count_mismatch();
  return microbatch;
}

std::optional<std::uint32_t> TrainingMarks::next_end(OpKind kind, std::uint16_t stage) noexcept {
  const std::optional<std::uint32_t> microbatch = next_.end(kind, stage);
  if (!microbatch) writer_.count_mismatch();
  return microbatch;
}

void TrainingMarks::defer_unit(ipc::UnitEventType type, OpKind kind, std::uint16_t stage,
                               std::uint32_t microbatch) noexcept {
  stream_.mark({.time_ns = mark_time_ns(), .number = microbatch, .stage = stage, .kind = kind, .type = type});
}

}  // namespace lowgear::client
