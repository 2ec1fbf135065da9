#include "report/usage/month.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/core/error.h"
#include "base/core/numbers/number.h"

namespace lowgear::usage {
namespace {

constexpr std::size_t kYearDigits = 4;
constexpr std::string_view kForm = "0000-00";

bool has_form(std::string_view text) {
  return text.size() == kForm.size() && std::ranges::equal(text, kForm, [](char c, char form) {
           return form == '0' ? c >= '0' && c <= '9' : c == form;
         });
}

constexpr std::int64_t kDayS = 86'400;
constexpr int kFirstYear = 1970;
constexpr int kLastYear = 9998;

/// Leap days of the Gregorian calendar before the first day of a year.
std::int64_t leap_days_before(int year) { return (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400; }

bool is_leap(int year) { return leap_days_before(year + 1) > leap_days_before(year); }

/// `month` from 1 to 13: the first month of the next year.
std::int64_t begin_s(int year, int month) {
  constexpr std::array<int, 13> kDaysBefore = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
  const std::int64_t leap_days = leap_days_before(year) - leap_days_before(kFirstYear);
  const int in_year = kDaysBefore.at(static_cast<std::size_t>(month - 1)) + (month > 2 && is_leap(year) ? 1 : 0);
  return ((year - kFirstYear) * std::int64_t{365} + leap_days + in_year) * kDayS;
}

}  // namespace

Month parse_month(std::string_view text) {
  const auto refuse = [&] { throw InputError(fmt::format("{} is not a month, such as 2026-11", quote(text))); };
  if (!has_form(text)) refuse();
  const auto year = static_cast<int>(parse_integer(text.substr(0, kYearDigits)).value_or(0));
  const auto month = static_cast<int>(parse_integer(text.substr(kYearDigits + 1)).value_or(0));
  if (month < 1 || month > 12 || year < kFirstYear || year > kLastYear) refuse();
  return {.name = std::string(text), .from_s = begin_s(year, month), .to_s = begin_s(year, month + 1)};
}

}  // namespace lowgear::usage
