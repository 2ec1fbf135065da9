#include "app/operations/runs/server_usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/http/client/client.h"
#include "base/http/message/error.h"
#include "base/http/tls/tls_credentials.h"

namespace lowgear::operations {
namespace {

constexpr std::chrono::seconds kPatience{60};

/// The address in `<ADDRESS>; rel="next"`; empty where there is no such header.
std::string next_of(const http::Headers& headers) {
  const auto link = headers.find("link");
  if (link == headers.end() || !link->second.ends_with("rel=\"next\"")) return {};
  const std::size_t open = link->second.find('<');
  const std::size_t close = link->second.find('>');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return link->second.substr(open + 1, close - open - 1);
}

[[noreturn]] void throw_refusal_of(const std::string& address, const http::ReplyText& reply) {
  const std::optional<http::ErrorBody> error = http::read_error_body(reply.body);
  throw Error(fmt::format("{} refuses usage.csv: {} ({})", address,
                          error ? printable(error->message, 400) : "no reason is given", reply.status));
}

}  // namespace

std::vector<usage::UsageRow> ask_usage(const ServerAccess& server, const usage::Month& month) {
  http::ClientOptions options;
  options.tls = http::tls_files_from_environment(process_environment());
  http::Client client(http::Endpoint::parse(server.address), std::move(options));
  http::Client::HeaderList headers;
  if (!server.token_file.empty()) {
    headers.emplace_back("Authorization", "Bearer " + http::read_token_file(server.token_file));
  }
  std::string target = fmt::format("/v1/exports/usage.csv?from_s={}&to_s={}", month.from_s, month.to_s);
  std::vector<usage::UsageRow> rows;
  bool is_first = true;
  while (!target.empty()) {
    const http::ReplyText reply = client.request("GET", target, {}, headers, kPatience);
    if (reply.status != 200) throw_refusal_of(server.address, reply);
    const std::string header(is_first ? "" : usage::usage_header());
    std::vector<usage::UsageRow> page =
        usage::read_usage(header + reply.body, server.address + "/v1/exports/usage.csv");
    std::ranges::move(page, std::back_inserter(rows));
    std::string next = next_of(reply.headers);
    if (next == target) throw Error(fmt::format("{} names the same page of usage.csv as the next one", server.address));
    target = std::move(next);
    is_first = false;
  }
  return rows;
}

}  // namespace lowgear::operations
