#include "base/http/message/message.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <vector>

namespace lowgear::http {

std::string_view Request::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

Response Response::with_body(int status, std::string content_type, std::string body) {
  Response response;
  response.status = status;
  response.content_type = std::move(content_type);
  response.body = std::make_shared<const std::string>(std::move(body));
  return response;
}

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::sys_seconds;

constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
constexpr std::size_t kMaxDigits = 9;
/// A year of two digits that appears to be further ahead is of the century before.
constexpr int kYearsAhead = 50;

std::vector<std::string_view> words_of(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
    if (text.empty()) return words;
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::optional<int> digits(std::string_view text) {
  const bool are_digits = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  int value = 0;
  if (text.empty() || text.size() > kMaxDigits || !are_digits) return std::nullopt;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

int full_year(int of_century, sys_seconds now) {
  const int present = static_cast<int>(std::chrono::year_month_day(std::chrono::floor<std::chrono::days>(now)).year());
  const int year = present / 100 * 100 + of_century;
  return year > present + kYearsAhead ? year - 100 : year;
}

std::optional<seconds> time_of_day(std::string_view text) {
  const std::vector<std::string_view> parts = words_of(text, ":");
  if (text.size() != 8 || parts.size() != 3) return std::nullopt;
  const std::optional<int> hour = digits(parts[0]);
  const std::optional<int> minute = digits(parts[1]);
  const std::optional<int> second = digits(parts[2]);
  // 60: a leap second.
  if (!hour || !minute || !second || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  return std::chrono::hours(*hour) + std::chrono::minutes(*minute) + seconds(*second);
}

std::optional<seconds> asked_for(std::string_view text, const Headers& headers, sys_seconds now) {
  if (const std::optional<int> wait_s = digits(text)) return seconds(*wait_s);
  const std::optional<sys_seconds> date = parse_date(text, now);
  if (!date) return std::nullopt;
  const auto sent = headers.find("date");
  const std::optional<sys_seconds> sent_at = sent == headers.end() ? std::nullopt : parse_date(sent->second, now);
  return *date - sent_at.value_or(now);
}

}  // namespace

std::optional<sys_seconds> parse_date(std::string_view text, sys_seconds now) {
  const std::vector<std::string_view> words = words_of(text, " ,-");
  const bool is_asctime = words.size() == 5;
  if (!is_asctime && (words.size() != 6 || words.back() != "GMT")) return std::nullopt;
  const auto month = std::ranges::find(kMonths, words[is_asctime ? 1 : 2]);
  const std::optional<int> day = digits(words[is_asctime ? 2 : 1]);
  const std::string_view year_text = words[is_asctime ? 4 : 3];
  const std::optional<int> year = digits(year_text);
  const std::optional<seconds> time = time_of_day(words[is_asctime ? 3 : 4]);
  if (month == kMonths.end() || !day || !year || !time || (year_text.size() != 4 && year_text.size() != 2)) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year_text.size() == 4 ? *year : full_year(*year, now)),
                                         std::chrono::month(static_cast<unsigned>(month - kMonths.begin()) + 1),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date) + *time;
}

milliseconds retry_after(const Headers& headers, milliseconds longest, std::chrono::system_clock::time_point now) {
  const auto header = headers.find("retry-after");
  if (header == headers.end()) return milliseconds(0);
  const std::optional<seconds> wait = asked_for(header->second, headers, std::chrono::floor<seconds>(now));
  return std::clamp<milliseconds>(wait.value_or(seconds(0)), milliseconds(0), longest);
}

}  // namespace lowgear::http
