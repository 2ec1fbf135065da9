#include "client/search/search_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/core/error.h"
#include "base/core/numbers/number.h"

namespace lowgear::client {
namespace {

constexpr double kMostSlowdownPct = 1000;
constexpr double kMostBlockS = 86'400;
constexpr double kMostValue = 100'000;

/// Empty unless it is a number in (low, high].
std::optional<double> number_within(std::string_view text, double low, double high) {
  const std::optional<double> number = parse_number(text);
  return number && *number >= low && *number <= high ? number : std::nullopt;
}

}  // namespace

double parse_allowed_slowdown_pct(std::string_view text) {
  constexpr std::string_view kPrefix = "slowdown=";
  std::string_view number = text;
  if (number.starts_with(kPrefix)) number.remove_prefix(kPrefix.size());
  if (number.ends_with('%')) number.remove_suffix(1);
  const std::optional<double> percent = number_within(number, 0, kMostSlowdownPct);
  if (!percent || !text.starts_with(kPrefix)) {
    throw InputError(fmt::format("{} is no bound of a search; give how much longer an iteration may take: slowdown=2%",
                                 quote(text)));
  }
  return *percent;
}

RequestedPoints parse_points(std::string_view text) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string_view kind = text.substr(0, equals);
  RequestedPoints points;
  if (kind == "power-limit") {
    points.kind = PointKind::power_limit;
  } else if (kind != "clock") {
    throw InputError(fmt::format("there are no operating points {}; there are clock and power-limit", quote(kind)));
  }
  if (equals == text.size()) return points;
  std::string_view list = text.substr(equals + 1);
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::optional<double> value = number_within(list.substr(0, comma), 1, kMostValue);
    if (!value) {
      throw InputError(
          fmt::format("{} is no value of an operating point; list them with full speed first, such as "
                      "clock=1980,1755",
                      quote(list.substr(0, comma))));
    }
    points.values.push_back(*value);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return points;
}

std::optional<SearchRequest> search_from_environment(const Environment& environment) {
  const std::string bound = environment("LOWGEAR_SEARCH").value_or("");
  if (bound.empty()) return std::nullopt;
  SearchRequest request;
  request.allowed_slowdown_pct = parse_allowed_slowdown_pct(bound);
  if (const auto points = environment("LOWGEAR_SEARCH_POINTS"); points && !points->empty()) {
    request.points = parse_points(*points);
  }
  if (const auto block = environment("LOWGEAR_SEARCH_BLOCK"); block && !block->empty()) {
    const std::optional<double> block_s = number_within(*block, 0.001, kMostBlockS);
    if (!block_s) throw InputError(fmt::format("LOWGEAR_SEARCH_BLOCK={} is no time in s", printable(*block, 60)));
    request.block_s = *block_s;
  }
  request.record = environment("LOWGEAR_SEARCH_RECORD").value_or("");
  return request;
}

}  // namespace lowgear::client
