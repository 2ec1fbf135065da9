#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "client/rank/rank_environment.h"
#include "client/search/point_setter.h"

namespace lowgear::client {

/// Points as a user names them.
struct RequestedPoints {
  PointKind kind = PointKind::clock;
  std::vector<double> values;  ///< MHz or W, full speed first; empty: chosen
};

/// What a user asks of a search of the operating point.
struct SearchRequest {
  double allowed_slowdown_pct = 0;
  RequestedPoints points;
  double block_s = 30;
  std::optional<int> max_iterations;  ///< empty: 300, or as many as 30 blocks take
  std::filesystem::path record;       ///< empty: none
};

/// `slowdown=2%`, also without the sign. Throws InputError.
[[nodiscard]] double parse_allowed_slowdown_pct(std::string_view text);
/// `clock`, `power-limit`, or with values: `clock=1980,1755,1530`. Throws InputError.
[[nodiscard]] RequestedPoints parse_points(std::string_view text);

/// What `lowgear run --search` sets: LOWGEAR_SEARCH (`slowdown=2%`), LOWGEAR_SEARCH_POINTS, LOWGEAR_SEARCH_BLOCK (in s)
/// and LOWGEAR_SEARCH_RECORD. Empty where the first is not set. Throws InputError.
[[nodiscard]] std::optional<SearchRequest> search_from_environment(const Environment& environment);

}  // namespace lowgear::client
