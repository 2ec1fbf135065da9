#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace lowgear {

/// The candidate that the author of `text` may have meant: the one with the fewest letters to change, add, leave
/// out or swap, if they are at most a third of the word (and one in a short word).
[[nodiscard]] std::optional<std::string_view> nearest_name(std::string_view text,
                                                           std::span<const std::string_view> candidates);

}  // namespace lowgear
