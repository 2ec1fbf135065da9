#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/http/message/message.h"

namespace lowgear::http {

/// A request's path and query, percent-decoded. Each parameter may come once.
struct Target {
  std::vector<std::string> segments;  ///< `/v1/gpus` is {`v1`, `gpus`}
  std::map<std::string, std::string, std::less<>> parameters;
};

/// Throws InputError for a path that is not absolute, a wrong percent-encoding, or a parameter that comes twice.
[[nodiscard]] Target parse_target(std::string_view path, std::string_view query);

/// The segments that match each `{}` of the pattern, in order: `/v1/jobs/{}/ranks` matches {`v1`, `jobs`, `7`, `ranks`}
/// with `7`. Empty when the path does not match.
[[nodiscard]] std::optional<std::vector<std::string>> match_path(std::string_view pattern,
                                                                 std::span<const std::string> segments);

/// The part of a row in a table of routes that the router needs.
struct Route {
  std::string_view method;   ///< `GET`, `POST`, ...
  std::string_view pattern;  ///< `/v1/jobs/{}/plan`: `{}` stands for any one part of the path
};

/// The routes of a table, whose rows have a `method` and a `pattern`.
template <typename Table>
[[nodiscard]] std::vector<Route> routes_of(const Table& table) {
  std::vector<Route> routes;
  for (const auto& row : table) routes.push_back({.method = row.method, .pattern = row.pattern});
  return routes;
}

/// How routes of GET treat a HEAD.
enum class HeadRequests : unsigned char {
  as_get,  ///< answer it; Server leaves out the body
  refused,
};

/// Finds the route of a request.
class Router {
 public:
  struct Match {
    std::size_t route = 0;              ///< its place in the table
    std::vector<std::string> captures;  ///< segments that match each `{}` of its pattern
  };

  /// `list` is the place where a client finds the paths, for messages. The routes' texts must outlive the router.
  Router(std::vector<Route> routes, std::string list, HeadRequests head = HeadRequests::as_get)
      : routes_(std::move(routes)), list_(std::move(list)), head_(head) {}

  /// Throws HttpError: 404 `not_found` when no route has this path, 405 `method_not_allowed` with the header `Allow`
  /// when the routes of this path take other methods.
  [[nodiscard]] Match find(const Request& request, const Target& target) const;

 private:
  std::vector<Route> routes_;
  std::string list_;
  HeadRequests head_;
};

/// Throws InputError at an unknown query parameter, so that a misspelt one is not ignored.
void require_known_parameters(std::span<const std::string_view> known, const Target& target);

}  // namespace lowgear::http
