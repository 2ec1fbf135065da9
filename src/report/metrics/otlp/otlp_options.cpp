#include "report/metrics/otlp/otlp_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/secret_file.h"

namespace lowgear::metrics {
namespace {

constexpr std::size_t kMaxHeaderBytes = 16'384;
constexpr std::string_view kSignal = "/v1/metrics";
/// Of the request itself, which it states by itself.
constexpr auto kOwnHeaders = std::to_array<std::string_view>({"content-type", "content-length", "host", "connection"});

std::filesystem::path absolute_file(TomlTable& table, std::string_view key) {
  const std::filesystem::path path = table.text(key).value_or("");
  if (!path.empty() && !path.is_absolute()) {
    table.fail_at(key, fmt::format("{} has to be a path that begins with /", quote(key)));
  }
  return path;
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

/// As collectors are configured elsewhere: the address of the collector, to which the path of metrics belongs.
void set_address(OtlpOptions& options, std::string_view url) {
  const std::size_t scheme = url.find("://");
  const bool is_http = url.starts_with("http://") || url.starts_with("https://");
  if (!is_http || !is_printable(url) || url.find_first_of("?#") != std::string_view::npos) {
    throw InputError("expected the address of a collector, such as https://collector.example:4318");
  }
  const std::size_t slash = url.find('/', scheme + 3);
  options.collector = http::Endpoint::parse(url.substr(0, slash));
  std::string path(slash == std::string_view::npos ? "" : url.substr(slash));
  while (path.ends_with('/')) path.pop_back();
  if (!path.ends_with(kSignal)) path += kSignal;
  options.target = std::move(path);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + ('a' - 'A')) : c; });
  return lower;
}

bool is_header_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

}  // namespace

std::optional<OtlpOptions> parse_otlp(TomlTable table) {
  OtlpOptions options;
  const std::optional<std::string> url = table.text("url");
  if (const auto seconds = table.number_in("interval_s", 1, 3'600)) {
    options.interval = std::chrono::milliseconds(static_cast<long>(*seconds * 1e3));
  }
  options.headers_file = absolute_file(table, "headers_file");
  options.ca_file = absolute_file(table, "ca_file");
  table.finish();
  if (!url) return std::nullopt;
  table.look_up("url", [&] { set_address(options, *url); });
  return options;
}

http::Client::HeaderList read_otlp_headers(const std::filesystem::path& file) {
  const std::string text = read_secret_file(file, kMaxHeaderBytes);
  http::Client::HeaderList headers;
  int line_number = 0;
  for (std::string_view left = text; !left.empty();) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    const std::string_view line = trimmed(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
    ++line_number;
    if (line.empty() || line.front() == '#') continue;
    const std::size_t colon = std::min(line.find(':'), line.size());
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trimmed(line.substr(std::min(colon + 1, line.size())));
    const bool is_value =
        !value.empty() && std::ranges::all_of(value, [](char c) { return (c >= ' ' && c < 0x7f) || c == '\t'; });
    if (!is_header_name(name) || !is_value) {
      throw InputError(fmt::format("{}:{}: expected a header, such as Authorization: Bearer TOKEN",
                                   printable(file.string()), line_number));
    }
    if (std::ranges::find(kOwnHeaders, lower_case(name)) != kOwnHeaders.end()) {
      throw InputError(fmt::format("{}:{}: the request has its own {}; remove the line", printable(file.string()),
                                   line_number, name));
    }
    headers.emplace_back(name, value);
  }
  return headers;
}

}  // namespace lowgear::metrics
