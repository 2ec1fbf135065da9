#include "base/http/message/router.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/core/error.h"
#include "base/http/message/error.h"

namespace lowgear::http {

Router::Match Router::find(const Request& request, const Target& target) const {
  const bool head_as_get = head_ == HeadRequests::as_get;
  const std::string_view method = head_as_get && request.method == "HEAD" ? "GET" : std::string_view(request.method);
  std::vector<std::string_view> allowed;
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    std::optional<std::vector<std::string>> captures = match_path(routes_[i].pattern, target.segments);
    if (!captures) continue;
    if (routes_[i].method == method) return {.route = i, .captures = *std::move(captures)};
    allowed.push_back(routes_[i].method);
    if (head_as_get && routes_[i].method == "GET") allowed.emplace_back("HEAD");
  }
  if (allowed.empty()) {
    throw HttpError(ErrorCode::not_found,
                    fmt::format("there is no path {}; {} lists the paths", quote(request.path), list_));
  }
  const std::string methods = fmt::format("{}", fmt::join(allowed, ", "));
  throw HttpError(ErrorCode::method_not_allowed,
                  fmt::format("{} is not allowed for this path; allowed: {}", quote(request.method), methods),
                  {{"Allow", methods}});
}

void require_known_parameters(std::span<const std::string_view> known, const Target& target) {
  for (const auto& [name, value] : target.parameters) {
    if (std::ranges::find(known, name) != known.end()) continue;
    throw InputError(fmt::format("parameter {} is not known; known: {}", quote(name),
                                 known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  }
}

}  // namespace lowgear::http
