#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/core/op_kind.h"
#include "base/ipc/unit_ring.h"

namespace lowgear::client {

/// What a unit computes: a kind of op, as schedules and plans have them, or more than one op; numbered as in the ring.
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

}  // namespace lowgear::client
