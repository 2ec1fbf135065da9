#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace lowgear {

/// A number with its noun: `1 vertex`, `2 vertices`.
template <std::integral Number>
[[nodiscard]] std::string counted(Number count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

/// `value` with this many digits after the point. A value that rounds to zero has no minus sign.
[[nodiscard]] std::string fixed_text(double value, int digits);
/// The same with its sign: `-13.81`, and `+0.00` for a value that rounds to zero.
[[nodiscard]] std::string signed_text(double value, int digits);

/// Three digits, and never an exponent for large values: `0.295`, `23.1`, `6730`.
[[nodiscard]] std::string three_digits(double value);

/// A time with three digits: `25 ms`, `9 s`, from two minutes on `13.8 min`, and from two hours on `2.5 h`.
[[nodiscard]] std::string duration_text(double time_s);

}  // namespace lowgear
