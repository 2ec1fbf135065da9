#include "server/http/audited_reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/core/formats/json.h"
#include "base/http/message/error.h"

namespace lowgear::server {
namespace {

constexpr int kUnauthorized = 401;
constexpr int kForbidden = 403;
/// Longer bodies are no answers to a change.
constexpr std::size_t kMaxAnswerBytes = 4'096;

bool is_entered(std::string_view method, std::string_view route, int status) {
  constexpr std::array<std::string_view, 4> kRoutine = {"/reports", "/profile", "/decisions", "/power"};
  if (status == kUnauthorized || status == kForbidden) return true;
  if (method == "GET") return false;
  return std::ranges::none_of(kRoutine, [&](std::string_view end) { return route.ends_with(end); });
}

Json answer_of(const http::Response& response) {
  const std::string_view text = response.text();
  return text.size() > kMaxAnswerBytes ? Json() : Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string text_member(const Json& object, std::string_view name) {
  if (!object.is_object()) return {};
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

AuditedRequest audited_request(const http::Request& request, const ApiRoute& route, std::string object) {
  return {.caller = {},
          .address = request.peer ? fmt::format("unix user {}", request.peer->uid) : request.remote,
          .method = route.method,
          .route = route.pattern,
          .object = std::move(object),
          .status = 0,
          .result = {}};
}

void AuditedReply::send(http::Response response) {
  if (is_entered(request_.method, request_.route, response.status)) {
    request_.status = response.status;
    if (!request_.is_refused()) {
      request_.result = "ok";
      if (request_.object.empty()) request_.object = text_member(answer_of(response), "job");
    } else {
      const auto error = http::read_error_body(response.text());
      request_.result = error ? error->code : "error";
    }
    log_->add(request_);
  }
  reply_->send(std::move(response));
}

}  // namespace lowgear::server
