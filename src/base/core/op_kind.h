#pragma once

#include <optional>
#include <string_view>

namespace lowgear {

/// What a unit of computation does. `backward` is the whole backward pass; zero-bubble schedules split it into
/// `input_gradient` (what the previous stage waits for) and `weight_gradient` (what no other rank waits for).
enum class OpKind : unsigned char { forward, backward, input_gradient, weight_gradient };

inline constexpr int kOpKindCount = 4;

/// The name used in stage profiles and plans: `forward`, `backward`, `input_gradient`, `weight_gradient`.
[[nodiscard]] std::string_view name(OpKind kind);
/// The inverse of `name`; empty when the text is none of them.
[[nodiscard]] std::optional<OpKind> op_kind_from_name(std::string_view text);

/// The letter of PyTorch's schedule notation: `F`, `B`, `I`, `W`.
[[nodiscard]] char letter(OpKind kind);
/// The inverse of `letter`; empty when it is none of them.
[[nodiscard]] std::optional<OpKind> op_kind_from_letter(char text);

}  // namespace lowgear
