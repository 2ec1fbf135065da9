#include "server/perseus/request_log.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/core/error.h"

namespace lowgear::server::perseus {
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
