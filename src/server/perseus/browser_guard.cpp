#include "server/perseus/browser_guard.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/core/error.h"
#include "base/http/message/endpoint.h"
#include "base/http/message/error.h"

namespace lowgear::server::perseus {
namespace {

bool equal_without_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

/// The media type of a `Content-Type`, without its parameters.
std::string_view media_type(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.remove_suffix(1);
  return type;
}

}  // namespace

void refuse_browsers(const http::Request& request, bool loopback_only) {
  const std::string_view site = request.header("sec-fetch-site");
  if (!request.header("origin").empty() || (!site.empty() && site != "none")) {
    throw http::HttpError(http::ErrorCode::not_allowed, "web pages may not use this port; it is for training programs");
  }
  const std::string_view content_type = request.header("content-type");
  if (!content_type.empty() && !equal_without_case(media_type(content_type), "application/json")) {
    throw http::HttpError(http::ErrorCode::not_json,
                          "the body has to be JSON, sent with Content-Type: application/json");
  }
  const std::string_view host = request.header("host");
  if (loopback_only && !host.empty() && !http::names_loopback(host)) {
    throw http::HttpError(http::ErrorCode::not_allowed,
                          "this port is for this machine only: use localhost or 127.0.0.1 instead of " + quote(host) +
                              ", or let it listen on an address that other machines reach");
  }
}

}  // namespace lowgear::server::perseus
