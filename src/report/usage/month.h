#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lowgear::usage {

/// A month of the calendar, in UTC.
struct Month {
  std::string name;         ///< `2026-11`
  std::int64_t from_s = 0;  ///< its first second, since 1970
  std::int64_t to_s = 0;    ///< that of the next month

  [[nodiscard]] bool has(std::int64_t time_s) const { return time_s >= from_s && time_s < to_s; }
};

/// `2026-11`, of the years 1970 to 9998. Throws InputError, without a place, for anything else.
[[nodiscard]] Month parse_month(std::string_view text);

}  // namespace lowgear::usage
