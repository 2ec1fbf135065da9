#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lowgear {

/// The kind of a unit of computation. lowgear.h, Python's client and the ring that client and agent share have the same
/// numbers; files and documents have names or letters.
///
/// `backward` is the whole backward pass; zero-bubble schedules split it into `input_gradient` (the previous stage
/// waits for it) and `weight_gradient` (no other rank waits for it). A forward may keep only its input: then
/// `recomputation` repeats it before the backward begins, or `recomputing_backward` repeats it within the backward,
/// once the gradient has arrived.
enum class OpKind : std::uint8_t {
  forward = 0,
  backward = 1,
  input_gradient = 2,
  weight_gradient = 3,
  forward_backward = 4,  ///< the forward of one microbatch and the backward of another in one; in no schedule
  recomputation = 5,
  recomputing_backward = 6,
};

inline constexpr int kOpKindCount = 7;

/// The kinds of schedules, which can be profiled and planned for.
inline constexpr auto kScheduledKinds =
    std::to_array({OpKind::forward, OpKind::backward, OpKind::input_gradient, OpKind::weight_gradient,
                   OpKind::recomputation, OpKind::recomputing_backward});
[[nodiscard]] constexpr bool is_scheduled(OpKind kind) { return kind != OpKind::forward_backward; }

/// The name used in stage profiles, plans and recordings: that of the enumerator.
[[nodiscard]] std::string_view name(OpKind kind);
/// The scheduled kind of this name; empty when the text is none.
[[nodiscard]] std::optional<OpKind> op_kind_from_name(std::string_view text);

/// The names of scheduled kinds, for messages: "forward, backward, ... and recomputing_backward".
[[nodiscard]] std::string op_kind_names();

/// The letter of PyTorch's schedule notation: `F`, `B`, `I`, `W`; and `R` for a recomputation, `C` for a recomputing
/// backward, which PyTorch does not have.
[[nodiscard]] char letter(OpKind kind);

}  // namespace lowgear
