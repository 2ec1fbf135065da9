#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/core/op_kind.h"
#include "base/ipc/unit_ring.h"
#include "client/measure/bounded_queue.h"

namespace lowgear::client {

/// The work of a unit: a kind of op, as in schedules and plans, or more than one op; numbered as in the ring.
enum class UnitKind : std::uint8_t {
  forward,
  backward,
  input_gradient,
  weight_gradient,
  forward_backward,  ///< the forward of one microbatch and the backward of another in one; no schedule has it
  recomputation,
  recomputing_backward,
};
static_assert(static_cast<std::uint8_t>(UnitKind::forward_backward) == ipc::kNoOp);

inline constexpr std::uint8_t kUnitKindCount = 7;

[[nodiscard]] constexpr UnitKind unit_kind(OpKind kind) { return static_cast<UnitKind>(ipc::unit_number(kind)); }
/// Whether a schedule may have such an op, so that it can be profiled and planned for.
[[nodiscard]] constexpr bool is_op(UnitKind kind) { return kind != UnitKind::forward_backward; }
/// The inverse of `unit_kind`, of a kind that `is_op`.
[[nodiscard]] constexpr OpKind op_kind(UnitKind kind) {
  const auto number = static_cast<std::uint8_t>(kind);
  return static_cast<OpKind>(number < ipc::kNoOp ? number : number - 1);
}

/// As recordings name it.
[[nodiscard]] inline std::string_view name(UnitKind kind) {
  return is_op(kind) ? name(op_kind(kind)) : "forward_backward";
}

enum class RecordType : std::uint8_t { unit, iteration_begin, iteration_end };

/// A unit or an iteration that is over, or an iteration that begins.
struct UnitRecord {
  std::uint64_t begin_ns = 0;  ///< CLOCK_MONOTONIC
  std::uint64_t end_ns = 0;    ///< of an iteration that begins: the same
  std::uint64_t iteration = 0;
  std::uint32_t microbatch = 0;
  std::uint32_t clock_mhz = 0;  ///< SM clock that the agent had asked for when it ended; 0: none
  std::uint16_t stage = 0;
  UnitKind kind = UnitKind::forward;
  RecordType type = RecordType::unit;
  bool settling = false;  ///< of an iteration in which clocks settle
};

/// Hands records from the thread that marks to the one that writes them.
using UnitLog = BoundedQueue<UnitRecord, std::size_t{1} << 15U>;
/// The same of iterations alone.
using IterationLog = BoundedQueue<UnitRecord, std::size_t{1} << 11U>;

}  // namespace lowgear::client
