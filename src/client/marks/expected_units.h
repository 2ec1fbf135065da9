#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/measure/unit_kind.h"

namespace lowgear::client {

struct ExpectedUnit {
  std::uint32_t microbatch = 0;
  std::uint16_t stage = 0;
  UnitKind kind = UnitKind::forward;
  friend bool operator==(const ExpectedUnit&, const ExpectedUnit&) = default;
};

/// The units that a rank begins in every iteration, in order, and whether it does. One thread marks, without waiting or
/// allocating; what was found may be asked for by any.
class ExpectedUnits {
 public:
  /// From the next iteration on; nothing is expected when there are none. By the thread that marks.
  void expect(std::vector<ExpectedUnit> units, bool must_agree);
  void iteration_begins(std::uint64_t iteration) noexcept {
    iteration_ = iteration;
    next_ = 0;
    checks_ = !units_.empty();
  }
  void unit_begins(const ExpectedUnit& unit) noexcept {
    if (!checks_) [[likely]]
      return;
    if (next_ < units_.size() && units_[next_] == unit) {
      ++next_;
      return;
    }
    differ(unit);
  }
  void iteration_ends() noexcept {
    if (checks_ && next_ < units_.size()) differ(std::nullopt);
    checks_ = false;
  }

  /// Iterations with another unit than was expected, or none; what follows in such an iteration is not looked at.
  [[nodiscard]] std::uint64_t differing_iterations() const { return differing_.load(std::memory_order_relaxed); }
  /// The first difference, for a person; empty: none.
  [[nodiscard]] std::string first_difference() const;
  /// Whether one was found that must not be.
  [[nodiscard]] bool has_failed() const { return failed_.load(std::memory_order_acquire); }

 private:
  struct Difference {
    std::uint64_t iteration = 0;
    std::size_t index = 0;
    std::optional<ExpectedUnit> expected;  ///< empty: the end of the iteration
    std::optional<ExpectedUnit> got;       ///< empty: the end of the iteration
  };
  void differ(const std::optional<ExpectedUnit>& got) noexcept;

  std::vector<ExpectedUnit> units_;
  std::size_t next_ = 0;
  std::uint64_t iteration_ = 0;
  bool checks_ = false;
  bool must_agree_ = true;
  Difference first_;  ///< written once, before `has_first_`
  std::atomic<bool> has_first_{false};
  std::atomic<bool> failed_{false};
  std::atomic<std::uint64_t> differing_{0};
};

}  // namespace lowgear::client
