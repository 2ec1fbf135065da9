#include "client/marks/expected_units.h"

#include <fmt/format.h>

#include <utility>

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

}  // namespace lowgear::client
