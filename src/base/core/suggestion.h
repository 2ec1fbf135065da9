#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lowgear {

/// Those of the candidates that begin with the family of `text`: the letters and digits before the first separator, or
/// before letters that follow digits (`a100` of `a100-sxm`, `gpt3` of `gpt3-xl`, `zb` of `zb-h3`). None where it is all
/// of the text.
[[nodiscard]] std::vector<std::string_view> names_of_family(std::string_view text,
                                                            std::span<const std::string_view> candidates);

/// Whether all words of `text`, divided at `-`, `_`, `.` and blanks, are words of `name`.
[[nodiscard]] bool has_words_of(std::string_view name, std::string_view text);

/// The candidate that the author of `text` may have meant: the one with the fewest letters to change, add, leave
/// out or swap, if they are at most a third of the word (and one in a short word); of equally near ones, the one that
/// begins alike for longest. Where there are names of the family of the text, no other is meant, and one with all of
/// its words is, however many more it has.
[[nodiscard]] std::optional<std::string_view> nearest_name(std::string_view text,
                                                           std::span<const std::string_view> candidates);

}  // namespace lowgear
