#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lowgear {

/// The finite number that the whole text spells (`83.64`, `-1e-3`), in any locale. Empty for anything else:
/// blanks, a leading `+`, hexadecimal, `nan`, `inf`, or beyond the range of a double.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

/// The whole number that the whole text spells, also when written as `4.0` or `4e3` (then up to 2^53).
[[nodiscard]] std::optional<long long> parse_integer(std::string_view text);

/// A double as a whole number, when it is one and no larger than 2^53 (beyond, a double no longer tells neighbours
/// apart).
[[nodiscard]] std::optional<long long> whole_number(double value);

/// `value` with six significant digits, none of them rounded down: as a limit that others are to keep it can be given
/// back. `value` is above 0 and finite.
[[nodiscard]] std::string rounded_up(double value);

/// Change from `from` to `to` in per cent; negative when `to` is less.
[[nodiscard]] constexpr double change_pct(double from, double to) { return 100 * (to - from) / from; }

}  // namespace lowgear
