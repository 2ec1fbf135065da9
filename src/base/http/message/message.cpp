#include "base/http/message/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <clocale>
#include <cstddef>
#include <ctime>
#include <optional>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "base/ipc/unix_socket.h"

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

/// Names of months and days are English whatever the process's locale is.
locale_t english() {
  static const locale_t c_locale = ::newlocale(LC_ALL_MASK, "C", nullptr);
  return c_locale;
}

std::optional<seconds> delay_of(std::string_view text, const Headers& headers, sys_seconds now) {
  constexpr std::size_t kMaxDigits = 9;
  const bool are_digits = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (are_digits && !text.empty() && text.size() <= kMaxDigits) return seconds(*parse_integer(text));
  const std::optional<sys_seconds> date = parse_date(std::string(text));
  if (!date) return std::nullopt;
  const auto sent = headers.find("date");
  const std::optional<sys_seconds> sent_at = sent == headers.end() ? std::nullopt : parse_date(sent->second);
  return *date - sent_at.value_or(now);
}

}  // namespace

std::optional<sys_seconds> parse_date(const std::string& text) {
  for (const char* form : {"%a, %d %b %Y %T GMT", "%A, %d-%b-%y %T GMT", "%a %b %d %T %Y"}) {
    std::tm time{};
    const char* const end = ::strptime_l(text.c_str(), form, &time, english());
    if (end != text.c_str() + text.size()) continue;
    const std::chrono::year_month_day date{std::chrono::year(time.tm_year + 1900),
                                           std::chrono::month(static_cast<unsigned>(time.tm_mon + 1)),
                                           std::chrono::day(static_cast<unsigned>(time.tm_mday))};
    if (!date.ok()) return std::nullopt;
    return std::chrono::sys_days(date) + std::chrono::hours(time.tm_hour) + std::chrono::minutes(time.tm_min) +
           seconds(time.tm_sec);
  }
  return std::nullopt;
}

milliseconds retry_after(const Headers& headers, milliseconds longest, std::chrono::system_clock::time_point now) {
  const auto header = headers.find("retry-after");
  if (header == headers.end()) return milliseconds(0);
  const std::optional<seconds> wait = delay_of(header->second, headers, std::chrono::floor<seconds>(now));
  return std::clamp<milliseconds>(wait.value_or(seconds(0)), milliseconds(0), longest);
}

namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";
constexpr std::string_view kUnix = "unix:";
constexpr std::uint16_t kHttpPort = 80;
constexpr std::uint16_t kHttpsPort = 443;

[[noreturn]] void throw_endpoint_error(std::string_view text, const std::string& what) {
  throw InputError(quote(text) + ": " + what + "; write http://host:port, https://host:port or unix:/path");
}

std::uint16_t parse_port(std::string_view port, std::string_view text) {
  constexpr long long kMaxPort = 65535;
  const std::optional<long long> number = parse_integer(port);
  if (!number || *number < 1 || *number > kMaxPort) throw_endpoint_error(text, quote(port) + " is not a port");
  return static_cast<std::uint16_t>(*number);
}

/// Printable ASCII, and nothing that has a meaning in a URL or a header.
bool is_host(std::string_view host) {
  return !host.empty() && std::ranges::all_of(host, [](char letter) {
    return letter > ' ' && letter < '\x7f' && std::string_view("/?#@[]\\\"<>").find(letter) == std::string_view::npos;
  });
}

Endpoint parse_http(std::string_view rest, std::uint16_t port_without_any, std::string_view text) {
  if (rest.ends_with('/')) rest.remove_suffix(1);
  Endpoint endpoint{.host = {}, .port = port_without_any, .unix_path = {}, .tls = port_without_any == kHttpsPort};
  std::string_view port;
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == std::string_view::npos) throw_endpoint_error(text, "the ] of the address is missing");
    endpoint.host = rest.substr(1, end - 1);
    port = rest.substr(end + 1);
    if (!port.empty() && !port.starts_with(':')) throw_endpoint_error(text, "after ] a colon and the port must follow");
  } else {
    const std::size_t colon = rest.find(':');
    endpoint.host = rest.substr(0, colon);
    if (colon != std::string_view::npos) port = rest.substr(colon);
  }
  if (!is_host(endpoint.host)) throw_endpoint_error(text, quote(endpoint.host) + " is not a host");
  if (!port.empty()) endpoint.port = parse_port(port.substr(1), text);
  return endpoint;
}

}  // namespace

Endpoint Endpoint::parse(std::string_view text) {
  if (text.starts_with(kHttp)) return parse_http(text.substr(kHttp.size()), kHttpPort, text);
  if (text.starts_with(kHttps)) return parse_http(text.substr(kHttps.size()), kHttpsPort, text);
  if (!text.starts_with(kUnix)) throw_endpoint_error(text, "this is not the address of a server");
  const std::string_view path = text.substr(kUnix.size());
  if (!path.starts_with('/') || path.find('\0') != std::string_view::npos) {
    throw_endpoint_error(text, "the path of a Unix socket starts with /");
  }
  if (path.size() > ipc::kMaxUnixPathBytes) {
    throw_endpoint_error(text, fmt::format("the path of a Unix socket has at most {} bytes", ipc::kMaxUnixPathBytes));
  }
  return {.host = {}, .port = 0, .unix_path = std::string(path), .tls = false};
}

std::string Endpoint::text() const {
  if (!unix_path.empty()) return std::string(kUnix) + unix_path;
  const bool brackets = host.find(':') != std::string::npos;
  return std::string(tls ? kHttps : kHttp) + (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

namespace {

constexpr std::array<std::string_view, 3> kLoopbackNames = {"localhost", "127.0.0.1", "[::1]"};

bool is_same_name(std::string_view left, std::string_view right) {
  const auto lower = [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  };
  return std::ranges::equal(left, right, {}, lower, lower);
}

bool is_port(std::string_view text) {
  return std::ranges::all_of(text, [](char letter) { return letter >= '0' && letter <= '9'; });
}

}  // namespace

bool names_loopback(std::string_view host) {
  const std::size_t bracket = host.find(']');
  const std::size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos && !is_port(host.substr(colon + 1))) return false;
  const std::string_view name = host.substr(0, colon);
  return std::ranges::any_of(kLoopbackNames, [&](std::string_view known) { return is_same_name(name, known); });
}

}  // namespace lowgear::http
