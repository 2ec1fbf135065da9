#include "base/http/message/router.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/core/error.h"
#include "base/http/message/error.h"

namespace lowgear::http {

namespace {

constexpr std::size_t kMaxSegments = 16;
constexpr std::size_t kMaxParameters = 32;

std::optional<int> hexadecimal(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return std::nullopt;
}

enum class Plus : unsigned char { stands_for_itself, stands_for_blank };

std::string percent_decoded(std::string_view text, Plus plus) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus == Plus::stands_for_blank) {
      result += ' ';
      continue;
    }
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    const std::optional<int> high = i + 1 < text.size() ? hexadecimal(text[i + 1]) : std::nullopt;
    const std::optional<int> low = i + 2 < text.size() ? hexadecimal(text[i + 2]) : std::nullopt;
    if (!high || !low) {
      throw InputError(fmt::format("{}: two hexadecimal digits must follow %; write %25 for % itself", quote(text)));
    }
    result += static_cast<char>(*high * 16 + *low);
    i += 2;
  }
  return result;
}

/// Calls `use` with each piece between separators.
template <typename Use>
void split(std::string_view text, char separator, Use use) {
  while (true) {
    const std::size_t end = text.find(separator);
    use(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

Target parse_target(std::string_view path, std::string_view query) {
  if (!path.starts_with('/')) throw InputError(fmt::format("{}: a path starts with /", quote(path)));
  Target target;
  split(path.substr(1), '/', [&](std::string_view segment) {
    if (target.segments.size() == kMaxSegments) throw InputError("the path has too many parts");
    target.segments.push_back(percent_decoded(segment, Plus::stands_for_itself));
  });
  if (query.empty()) return target;
  split(query, '&', [&](std::string_view parameter) {
    if (parameter.empty()) return;
    if (target.parameters.size() == kMaxParameters) throw InputError("the query has too many parameters");
    const std::size_t equals = parameter.find('=');
    const std::string_view value = equals == std::string_view::npos ? std::string_view{} : parameter.substr(equals + 1);
    std::string name = percent_decoded(parameter.substr(0, equals), Plus::stands_for_blank);
    const auto [place, added] =
        target.parameters.try_emplace(std::move(name), percent_decoded(value, Plus::stands_for_blank));
    if (!added) throw InputError(fmt::format("parameter {} occurs twice", quote(place->first)));
  });
  return target;
}

std::optional<std::vector<std::string>> match_path(std::string_view pattern, std::span<const std::string> segments) {
  std::vector<std::string> captures;
  for (const std::string& segment : segments) {
    if (pattern.empty()) return std::nullopt;
    pattern.remove_prefix(1);
    const std::string_view expected = pattern.substr(0, pattern.find('/'));
    pattern.remove_prefix(expected.size());
    if (expected == "{}") {
      captures.push_back(segment);
    } else if (expected != segment) {
      return std::nullopt;
    }
  }
  if (!pattern.empty()) return std::nullopt;
  return captures;
}

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
