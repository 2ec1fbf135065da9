#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/core/op_kind.h"

namespace lowgear {

/// What a unit computes: a kind of op, as schedules and plans have them, with the same number; or more than one op.
enum class UnitKind : std::uint8_t {
  forward,
  backward,
  input_gradient,
  weight_gradient,
  forward_backward,  ///< the forward of one microbatch and the backward of another in one; no schedule has it
};

inline constexpr std::uint8_t kUnitKindCount = 5;

[[nodiscard]] constexpr UnitKind unit_kind(OpKind kind) { return static_cast<UnitKind>(kind); }
/// Whether a schedule may have such an op, so that it can be profiled and planned for.
[[nodiscard]] constexpr bool is_op(UnitKind kind) { return static_cast<int>(kind) < kOpKindCount; }

/// As recordings name it.
[[nodiscard]] inline std::string_view name(UnitKind kind) {
  return is_op(kind) ? name(static_cast<OpKind>(kind)) : "forward_backward";
}

}  // namespace lowgear
