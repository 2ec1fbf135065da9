#include "base/core/numbers/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "base/core/numbers/number.h"

namespace lowgear {
namespace {

enum class Dimension : std::uint8_t { time, power, frequency, memory, gpu_memory, rate, share };

struct UnitWord {
  std::string_view word;
  Dimension dimension;
  double factor;  ///< of s, W, MHz, B, 2^30 B, GB/s, %
};

constexpr double kKibi = 1024;

constexpr auto kWords = std::to_array<UnitWord>({
    {"s", Dimension::time, 1},
    {"sec", Dimension::time, 1},
    {"ms", Dimension::time, 1e-3},
    {"us", Dimension::time, 1e-6},
    {"µs", Dimension::time, 1e-6},
    {"min", Dimension::time, 60},
    {"h", Dimension::time, 3600},
    {"W", Dimension::power, 1},
    {"mW", Dimension::power, 1e-3},
    {"kW", Dimension::power, 1e3},
    {"MW", Dimension::power, 1e6},
    {"GW", Dimension::power, 1e9},
    {"MHz", Dimension::frequency, 1},
    {"GHz", Dimension::frequency, 1e3},
    {"kHz", Dimension::frequency, 1e-3},
    {"Hz", Dimension::frequency, 1e-6},
    {"B", Dimension::memory, 1},
    {"KB", Dimension::memory, 1e3},
    {"MB", Dimension::memory, 1e6},
    {"GB", Dimension::memory, 1e9},
    {"TB", Dimension::memory, 1e12},
    {"KiB", Dimension::memory, kKibi},
    {"MiB", Dimension::memory, kKibi* kKibi},
    {"GiB", Dimension::memory, kKibi* kKibi* kKibi},
    {"TiB", Dimension::memory, kKibi* kKibi* kKibi* kKibi},
    {"GB", Dimension::gpu_memory, 1},
    {"GiB", Dimension::gpu_memory, 1},
    {"GB/s", Dimension::rate, 1},
    {"MB/s", Dimension::rate, 1e-3},
    {"TB/s", Dimension::rate, 1e3},
    {"Gbit/s", Dimension::rate, 0.125},
    {"Gb/s", Dimension::rate, 0.125},
    {"Gbps", Dimension::rate, 0.125},
    {"%", Dimension::share, 1},
    {"pct", Dimension::share, 1},
    {"percent", Dimension::share, 1},
    {"", Dimension::share, 100},
});

struct Symbol {
  Dimension dimension;
  std::string_view word;
  double usual;  ///< an amount for examples
};

constexpr auto kSymbols = std::to_array<Symbol>({
    {Dimension::time, "s", 16},
    {Dimension::time, "ms", 25},
    {Dimension::time, "us", 25},
    {Dimension::power, "W", 80},
    {Dimension::frequency, "MHz", 1410},
    {Dimension::memory, "B", 80e9},
    {Dimension::memory, "GiB", 80},
    {Dimension::gpu_memory, "GB", 80},
    {Dimension::rate, "GB/s", 300},
    {Dimension::share, "%", 5},
    {Dimension::share, "", 0.05},
});

const UnitWord& word_of(Unit unit) {
  const Symbol& wanted = kSymbols.at(static_cast<std::size_t>(unit));
  return *std::ranges::find_if(
      kWords, [&](const UnitWord& each) { return each.dimension == wanted.dimension && each.word == wanted.word; });
}

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char left, unsigned char right) { return std::tolower(left) == std::tolower(right); });
}

/// As it is written, else in another case where that leaves one meaning.
const UnitWord* find_word(std::string_view text, Dimension dimension) {
  const UnitWord* found = nullptr;
  for (const UnitWord& each : kWords) {
    if (each.dimension != dimension) continue;
    if (each.word == text) return &each;
    if (!equal_in_any_case(each.word, text)) continue;
    if (found != nullptr) return nullptr;
    found = &each;
  }
  return found;
}

/// Number and unit of a text; the unit is empty where it states none.
struct Parts {
  std::string_view number;
  std::string_view unit;
};

Parts split(std::string_view text) {
  constexpr std::string_view kOfNumbers = "0123456789.";
  const std::size_t last = text.find_last_of(kOfNumbers);
  const std::size_t end = last == std::string_view::npos ? 0 : last + 1;
  std::string_view unit = text.substr(end);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.empty() && end != text.size()) return {text, {}};  // ends with a blank
  return {text.substr(0, end), unit};
}

/// The whole number that a ratio of units differs from by rounding alone; else the ratio.
double near_whole(double ratio) {
  constexpr double kRounding = 1e-12;
  const double whole = std::round(ratio);
  return std::abs(ratio - whole) <= kRounding * whole ? whole : ratio;
}

}  // namespace

std::optional<double> parse_quantity(std::string_view text, Unit unit) {
  const auto [digits, word] = split(text);
  const std::optional<double> number = parse_number(digits);
  if (!number || word.empty()) return number;
  const UnitWord& wanted = word_of(unit);
  const UnitWord* const given = find_word(word, wanted.dimension);
  if (given == nullptr) return std::nullopt;
  if (given->factor == wanted.factor) return number;
  // By whole numbers, with which powers of ten are exact: 25 ms are 0.025 s, and 0.5 ms are 500 us.
  const double ratio = given->factor / wanted.factor;
  return ratio >= 1 ? *number * near_whole(ratio) : *number / near_whole(1 / ratio);
}

bool may_be_share(std::string_view text) {
  constexpr double kLikelyShare = 0.5;
  const std::optional<double> number = parse_number(text);
  return number && *number > 0 && *number < kLikelyShare;
}

std::string share_or_percent(std::string_view text) {
  constexpr double kPerCent = 100;
  return fmt::format("{} without a unit may mean two things: give {}% for that many per cent, or {:.6g}% for a share",
                     text, text, kPerCent * parse_number(text).value_or(0));
}

std::string example_of(Unit unit, double low, double high) {
  const double usual = kSymbols.at(static_cast<std::size_t>(unit)).usual;
  return fmt::format("{}{}", std::min(std::max(usual, low), high), symbol(unit));
}

std::string comma_hint(std::string_view text) {
  const std::size_t comma = text.find(',');
  const auto is_digit = [&](std::size_t place) {
    return place < text.size() && text[place] >= '0' && text[place] <= '9';
  };
  if (comma == std::string_view::npos || comma == 0 || !is_digit(comma - 1) || !is_digit(comma + 1)) return "";
  std::string dotted(text);
  dotted[comma] = '.';
  return parse_number(split(dotted).number) ? fmt::format("; write {}", dotted) : "";
}

std::string_view symbol(Unit unit) { return word_of(unit).word; }

}  // namespace lowgear
