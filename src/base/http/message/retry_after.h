#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "base/http/message/message.h"

namespace lowgear::http {

/// A date of a header, in each of the three forms that RFC 9110 (5.6.7) has recipients read:
/// `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`. The day of the week
/// is not looked at. A year of two digits is the one next to that of `now`. Empty: it is none.
[[nodiscard]] std::optional<std::chrono::sys_seconds> parse_date(std::string_view text, std::chrono::sys_seconds now);

/// How long a response asks its client to wait (`Retry-After`: seconds, or a date), at most `longest`. A date counts
/// from the response's own `Date` where it has one, as clocks of two machines differ, else from `now`. 0: it does not
/// ask, what it asks cannot be read, or the date is past.
[[nodiscard]] std::chrono::milliseconds retry_after(
    const Headers& headers, std::chrono::milliseconds longest,
    std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

}  // namespace lowgear::http
