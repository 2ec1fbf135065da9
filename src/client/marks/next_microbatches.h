#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "client/measure/unit_kind.h"

namespace lowgear::client {

/// Counts the units of each kind and stage in an iteration, for programs that do not say which microbatch they compute.
/// Neither waits nor allocates. Not safe from several threads.
class NextMicrobatches {
 public:
  /// Kinds of all stages of a rank that can be counted.
  static constexpr std::size_t kCapacity = 256;

  void begin_iteration() noexcept { ++iteration_; }
  /// Number of the microbatch that begins; empty when there are too many kinds and stages.
  [[nodiscard]] std::optional<std::uint32_t> begin(UnitKind kind, std::uint16_t stage) noexcept {
    Count* const count = find(kind, stage);
    if (count == nullptr) return std::nullopt;
    return count->begun++;
  }
  /// Number of the one that began last; empty when none has.
  [[nodiscard]] std::optional<std::uint32_t> end(UnitKind kind, std::uint16_t stage) noexcept {
    const Count* const count = find(kind, stage);
    if (count == nullptr || count->begun == 0) return std::nullopt;
    return count->begun - 1;
  }

 private:
  struct Count {
    std::uint64_t iteration = 0;
    std::uint32_t unit = 0;  ///< kind and stage
    std::uint32_t begun = 0;
  };

  Count* find(UnitKind kind, std::uint16_t stage) noexcept {
    const std::uint32_t unit = std::uint32_t{stage} << 8U | static_cast<std::uint32_t>(kind);
    const std::size_t first = std::size_t{stage} * kUnitKindCount + static_cast<std::size_t>(kind);
    for (std::size_t i = 0; i < kCapacity; ++i) {
      Count& count = counts_[(first + i) % kCapacity];
      if (count.iteration != iteration_) count = {.iteration = iteration_, .unit = unit, .begun = 0};
      if (count.unit == unit) return &count;
    }
    return nullptr;
  }

  std::array<Count, kCapacity> counts_;
  std::uint64_t iteration_ = 1;  ///< counted from 1 here: what is of another one is as if it were not there
};

}  // namespace lowgear::client
