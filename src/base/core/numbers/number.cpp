#include "base/core/numbers/number.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <system_error>

namespace lowgear {
namespace {

template <typename Value>
std::optional<Value> parse_all(std::string_view text) {
  Value value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  const std::optional<double> value = parse_all<double>(text);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return value;
}

std::optional<long long> parse_integer(std::string_view text) {
  if (const std::optional<long long> value = parse_all<long long>(text)) return value;
  const std::optional<double> value = parse_number(text);
  return value ? whole_number(*value) : std::nullopt;
}

std::optional<long long> whole_number(double value) {
  constexpr double kLargest = 9007199254740992.0;  // 2^53
  if (!(std::abs(value) <= kLargest) || value != std::trunc(value)) return std::nullopt;
  return static_cast<long long>(value);
}

std::string rounded_up(double value) {
  std::string text = fmt::format("{:.6g}", value);
  if (parse_number(text).value_or(value) >= value) return text;
  constexpr int kDigits = 6;
  const double last_digit = std::pow(10, std::floor(std::log10(value)) + 1 - kDigits);
  return fmt::format("{:.6g}", value + last_digit / 2);
}

}  // namespace lowgear
