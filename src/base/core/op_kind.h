#pragma once

#include <optional>
#include <string_view>

namespace lowgear {

/// What a unit of computation does. `backward` is the whole backward pass; zero-bubble schedules split it into
/// `input_gradient` (what the previous stage waits for) and `weight_gradient` (what no other rank waits for). A forward
/// may keep only its input: then `recomputation` repeats it before the backward begins, or `recomputing_backward` is a
/// whole backward that does so itself, once its gradient is there.
enum class OpKind : unsigned char {
  forward,
  backward,
  input_gradient,
  weight_gradient,
  recomputation,
  recomputing_backward
};

inline constexpr int kOpKindCount = 6;

/// The name used in stage profiles and plans: that of the enumerator.
[[nodiscard]] std::string_view name(OpKind kind);
/// The inverse of `name`; empty when the text is none of them.
[[nodiscard]] std::optional<OpKind> op_kind_from_name(std::string_view text);

/// All names, for messages: "forward, backward, ... and recomputing_backward".
[[nodiscard]] std::string_view op_kind_names();

/// The letter of PyTorch's schedule notation: `F`, `B`, `I`, `W`; and `R` for a recomputation, `C` for a recomputing
/// backward, which PyTorch does not have.
[[nodiscard]] char letter(OpKind kind);
/// The inverse of `letter`; empty when it is none of them.
[[nodiscard]] std::optional<OpKind> op_kind_from_letter(char text);

}  // namespace lowgear
