#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear {

/// The byte order mark that some programs put before UTF-8 text.
inline constexpr std::string_view kUtf8ByteOrderMark = "\xEF\xBB\xBF";

/// True for the second and later bytes of a character: every other byte starts one.
[[nodiscard]] constexpr bool is_utf8_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// Bytes of the character that `text` starts with; 0 when it starts with no valid UTF-8 (Unicode 15, table 3-7).
[[nodiscard]] std::size_t utf8_character_size(std::string_view text);

/// The candidates that begin with the family of `text`: the letters and digits before the first separator, or
/// before letters that follow digits (`a100` of `a100-sxm`, `gpt3` of `gpt3-xl`, `zb` of `zb-h3`). Empty where the
/// family is the whole text.
[[nodiscard]] std::vector<std::string_view> names_of_family(std::string_view text,
                                                            std::span<const std::string_view> candidates);

/// Whether all words of `text`, divided at `-`, `_`, `.` and blanks, are words of `name`.
[[nodiscard]] bool has_words_of(std::string_view name, std::string_view text);

/// The candidate that the author of `text` may have meant: the one with the fewest letters to change, add, leave
/// out or swap, if they are at most a third of the word (and one in a short word); of equally near ones, the one that
/// begins alike for longest. Where names of the text's family exist, it is one of them, and preferably one that has
/// all words of the text, however many more it has.
[[nodiscard]] std::optional<std::string_view> nearest_name(std::string_view text,
                                                           std::span<const std::string_view> candidates);

/// Failure of a program that a person's Ctrl-C stopped, as Python names it.
inline constexpr std::string_view kStoppedByUser = "KeyboardInterrupt";

/// What a failure did to a rank: `failed (OSError)`, and of the user's stop `was stopped by Ctrl-C`.
[[nodiscard]] std::string text_of_failure(std::string_view failure);

/// The UUID of a GPU or an instance as NVML writes it: `GPU-` and lower-case hexadecimal digits, without blanks around
/// it. Adds the prefix to the 36 characters of a bare UUID. Every reader of a UUID calls this, so that two texts of one
/// GPU are equal. Returns any other text unchanged.
[[nodiscard]] std::string normal_gpu_uuid(std::string_view text);

}  // namespace lowgear
