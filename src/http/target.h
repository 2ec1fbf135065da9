#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear {

/// What a request's path and query say, percent-decoded. Parameters may come once each.
struct HttpTarget {
  std::vector<std::string> segments;  ///< `/v1/gpus` is {`v1`, `gpus`}
  std::map<std::string, std::string, std::less<>> parameters;
};

/// Throws InputError for a path that is not absolute, a wrong percent-encoding, or a parameter that comes twice.
[[nodiscard]] HttpTarget parse_target(std::string_view path, std::string_view query);

}  // namespace lowgear
