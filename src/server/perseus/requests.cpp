#include "server/perseus/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "base/http/message/error.h"
#include "base/http/message/message.h"

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

namespace {

constexpr std::size_t kShownCharacters = 500;

/// With control characters escaped: a client's bytes cannot forge another line.
std::string shown(std::string_view body) {
  if (body.ends_with('\n')) body.remove_suffix(1);
  if (body.empty()) return "none";
  return printable(body, kShownCharacters);
}

class LoggedReply final : public http::Reply {
 public:
  LoggedReply(std::string request, std::shared_ptr<http::Reply> reply, std::function<void(const std::string&)> log)
      : request_(std::move(request)), reply_(std::move(reply)), log_(std::move(log)) {}

  void send(http::Response response) override {
    log_(fmt::format("{} -> {} {}", request_, response.status, shown(response.text())));
    reply_->send(std::move(response));
  }
  [[nodiscard]] std::shared_ptr<http::EventStream> stream(http::Response head) override {
    return reply_->stream(std::move(head));
  }
  [[nodiscard]] bool closed() const override { return reply_->closed(); }
  void on_close(std::function<void()> callback) override { reply_->on_close(std::move(callback)); }

 private:
  std::string request_;
  std::shared_ptr<http::Reply> reply_;
  std::function<void(const std::string&)> log_;
};

}  // namespace

std::shared_ptr<http::Reply> logged(const http::Request& request, std::shared_ptr<http::Reply> reply,
                                    std::function<void(const std::string&)> log) {
  std::string target = request.query.empty() ? request.path : request.path + "?" + request.query;
  return std::make_shared<LoggedReply>(fmt::format("{} {}: {}", request.method, shown(target), shown(request.body)),
                                       std::move(reply), std::move(log));
}

}  // namespace lowgear::server::perseus
