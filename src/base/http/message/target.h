#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::http {

/// What a request's path and query say, percent-decoded. Parameters may come once each.
struct Target {
  std::vector<std::string> segments;  ///< `/v1/gpus` is {`v1`, `gpus`}
  std::map<std::string, std::string, std::less<>> parameters;
};

/// Throws InputError for a path that is not absolute, a wrong percent-encoding, or a parameter that comes twice.
[[nodiscard]] Target parse_target(std::string_view path, std::string_view query);

/// What stands for each `{}` of the pattern, in order, when the path is one of the pattern's: `/v1/jobs/{}/ranks`
/// stands for {`v1`, `jobs`, `7`, `ranks`} with `7`.
[[nodiscard]] std::optional<std::vector<std::string>> match_path(std::string_view pattern,
                                                                 std::span<const std::string> segments);

}  // namespace lowgear::http
