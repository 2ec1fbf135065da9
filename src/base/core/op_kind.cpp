#include "base/core/op_kind.h"

#include <array>
#include <cstddef>

namespace lowgear {
namespace {

constexpr std::array<std::string_view, kOpKindCount> kNames = {
    "forward", "backward", "input_gradient", "weight_gradient", "recomputation", "recomputing_backward"};
constexpr std::string_view kLetters = "FBIWRC";

}  // namespace

std::string_view name(OpKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::optional<OpKind> op_kind_from_name(std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == text) return static_cast<OpKind>(i);
  }
  return std::nullopt;
}

std::string_view op_kind_names() {
  return "forward, backward, input_gradient, weight_gradient, recomputation and recomputing_backward";
}

char letter(OpKind kind) { return kLetters[static_cast<std::size_t>(kind)]; }

std::optional<OpKind> op_kind_from_letter(char text) {
  const std::size_t index = kLetters.find(text);
  if (index == std::string_view::npos) return std::nullopt;
  return static_cast<OpKind>(index);
}

}  // namespace lowgear
