#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace lowgear::launcher {

/// The activations that a layer's backward computes again instead of keeping them from the forward.
enum class Recompute : unsigned char {
  none,
  attention,  ///< from the norm before an attention to the input of the attention's last product
  full        ///< all but the layer's input
};

inline constexpr std::array<std::string_view, 3> kRecomputeWords = {"none", "attention", "full"};

[[nodiscard]] constexpr std::string_view name(Recompute recompute) {
  return kRecomputeWords.at(static_cast<std::size_t>(recompute));
}

}  // namespace lowgear::launcher
