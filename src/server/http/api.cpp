#include "server/http/api.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/monotonic_clock.h"
#include "base/core/numbers/number.h"
#include "base/http/message/error.h"
#include "base/http/message/router.h"
#include "server/fleet/refusal.h"
#include "server/http/api_routes.h"
#include "server/http/audited_reply.h"

namespace lowgear::server {
namespace {

http::ErrorCode code_of(Refusal reason) {
  switch (reason) {
    case Refusal::no_such_job:
      return http::ErrorCode::no_such_job;
    case Refusal::no_such_budget:
      return http::ErrorCode::no_such_budget;
    case Refusal::no_such_signal:
      return http::ErrorCode::no_such_signal;
    case Refusal::no_such_node:
      return http::ErrorCode::not_found;
    case Refusal::job_is_over:
      return http::ErrorCode::job_over;
    case Refusal::disagrees:
      return http::ErrorCode::disagrees;
    case Refusal::not_allowed:
      return http::ErrorCode::not_allowed;
    case Refusal::too_large:
      return http::ErrorCode::too_large;
    case Refusal::full:
      return http::ErrorCode::full;
    case Refusal::disk_full:
      return http::ErrorCode::disk_full;
    case Refusal::shuts_down:
      return http::ErrorCode::draining;
  }
  return http::ErrorCode::internal;
}

/// Throws HttpError for a caller that is not known.
Caller caller_of(Authenticator& authenticator, const http::Request& request) {
  const std::optional<Caller> caller = authenticator.identify(request, Authenticator::Clock::now());
  if (caller) return *caller;
  const bool sent = !request.header("authorization").empty();
  if (request.peer && !sent) {
    throw http::HttpError(http::ErrorCode::no_token,
                          "this user has no rights on this server: its configuration names users and scopes (allow)");
  }
  throw http::HttpError(
      http::ErrorCode::no_token,
      fmt::format("{}; LOWGEAR_SERVER_TOKEN_FILE names a file with a token alone (other programs than Lowgear's send "
                  "the header Authorization: Bearer TOKEN), and the server's token file has a line for it: "
                  "read,jobs TOKEN",
                  sent ? "the token that was sent is wrong or has expired" : "no token was sent"));
}

void require_scope(const Caller& caller, Scope needed) {
  if (caller.scopes.contain(needed)) return;
  throw http::HttpError(http::ErrorCode::not_allowed,
                        fmt::format("this token or user lacks the scope {0}: add {0} to the token's line in the "
                                    "server's token file, or to the user's rule in allow of its configuration",
                                    to_string(needed)));
}

/// Counts the answer on its way.
class CountedReply final : public http::Reply {
 public:
  CountedReply(std::shared_ptr<http::Reply> reply, const ApiRoute& route, Activity& activity)
      : reply_(std::move(reply)), route_(&route), activity_(&activity), start_s_(monotonic_s()) {}

  void send(http::Response response) override {
    activity_->request(route_->method, route_->pattern, response.status,
                       route_->waits() ? std::nullopt : std::optional(monotonic_s() - start_s_));
    reply_->send(std::move(response));
  }
  [[nodiscard]] std::shared_ptr<http::EventStream> stream(http::Response head) override {
    activity_->request(route_->method, route_->pattern, head.status, std::nullopt);
    return reply_->stream(std::move(head));
  }
  [[nodiscard]] bool closed() const override { return reply_->closed(); }
  void on_close(std::function<void()> callback) override { reply_->on_close(std::move(callback)); }

 private:
  std::shared_ptr<http::Reply> reply_;
  const ApiRoute* route_;
  Activity* activity_;
  double start_s_;
};

}  // namespace

const JobRecord& ApiCall::job() const { return control_plane.job(captures.at(0)); }

const FinishedJob* ApiCall::finished_job() const { return control_plane.finished_job(captures.at(0)); }

const LateRank& ApiCall::late_rank(const FinishedJob& of, int rank) const {
  if (const LateRank* late = of.late_rank(rank, request.header("lowgear-rank-key"))) return *late;
  throw job_is_over();
}

JsonView ApiCall::body() {
  // An empty text is no JSON; that is said better here.
  if (request.body.empty()) throw InputError("the request has no body; send a JSON object");
  document = parse_json(request.body, "body", kMaxBodyValues);
  return {document, "body"};
}

double ApiCall::number(std::string_view name, double fallback, double low, double high) const {
  const auto found = target.parameters.find(name);
  if (found == target.parameters.end()) return fallback;
  const auto value = parse_number(found->second);
  if (value && *value >= low && *value <= high) return *value;
  throw InputError(fmt::format("{}: expected a number from {} to {}, not {}", name, low, high, quote(found->second)));
}

long long ApiCall::integer(std::string_view name, long long fallback, long long low, long long high) const {
  const auto found = target.parameters.find(name);
  if (found == target.parameters.end()) return fallback;
  const auto value = parse_integer(found->second);
  if (value && *value >= low && *value <= high) return *value;
  throw InputError(
      fmt::format("{}: expected a whole number from {} to {}, not {}", name, low, high, quote(found->second)));
}

void ApiCall::require_rank(const JobRecord& of, int rank) const {
  if (of.ranks.owns(rank, request.header("lowgear-rank-key"))) return;
  if (of.is_over()) throw job_is_over();  // a server that starts anew keeps no keys of such jobs
  throw http::HttpError(http::ErrorCode::not_your_rank,
                        fmt::format("the header Lowgear-Rank-Key is not that of rank {} of this job", rank));
}

OnCommitted ApiCall::on_committed(Json answer, int status) const {
  return [reply = reply, answer = std::move(answer), status](StoreOutcome outcome) {
    switch (outcome) {
      case StoreOutcome::committed:
        return reply->send(http::json_response(answer, status));
      case StoreOutcome::disk_full: {
        http::Response response =
            error_response(http::ErrorCode::disk_full, "the server's disk is full: try again later");
        response.headers.emplace_back("Retry-After", "5");
        return reply->send(std::move(response));
      }
      case StoreOutcome::busy: {
        http::Response response =
            error_response(http::ErrorCode::busy,
                           "the server's disk is too slow, or another program holds its database: try again later");
        response.headers.emplace_back("Retry-After", "1");
        return reply->send(std::move(response));
      }
      case StoreOutcome::failed:
        return reply->send(
            error_response(http::ErrorCode::not_stored, "the server could not store the change; its log says why"));
    }
  };
}

std::shared_ptr<AuditedReply> Api::audited_reply(std::shared_ptr<http::Reply> reply, const http::Request& request,
                                                 const ApiRoute& route,
                                                 const std::vector<std::string>& captures) const {
  if (environment_.audit == nullptr) return nullptr;
  return std::make_shared<AuditedReply>(
      std::move(reply), audited_request(request, route, captures.empty() ? std::string() : captures.front()),
      *environment_.audit);
}

void Api::handle(const http::Request& request, std::shared_ptr<http::Reply> reply) {
  static const http::Router router(http::routes_of(api_routes()), "/openapi.json");
  try {
    const http::Target target = http::parse_target(request.path, request.query);
    http::Router::Match match = router.find(request, target);
    const ApiRoute& route = api_routes()[match.route];
    reply = std::make_shared<CountedReply>(std::move(reply), route, *environment_.activity);
    const auto audited = audited_reply(reply, request, route, match.captures);
    if (audited) reply = audited;
    std::shared_ptr<const NodeNames> nodes;
    if (const std::optional<Scope> needed = scope_of(route.access)) {
      Caller caller = caller_of(*environment_.authenticator, request);
      if (audited) audited->set_caller(caller.name);
      require_scope(caller, *needed);
      nodes = std::move(caller.nodes);
    }
    require_known_parameters(route.parameters, target);
    ApiCall call{.request = request,
                 .target = target,
                 .captures = std::move(match.captures),
                 .control_plane = *environment_.control_plane,
                 .environment = environment_,
                 .reply = reply,
                 .nodes = std::move(nodes),
                 .document = {}};
    route.answer(call);
  } catch (const Refused& refused) {
    reply->send(error_response(code_of(refused.reason()), refused.what()));
  } catch (const std::exception& error) {
    reply->send(http::error_response_to(error));
  }
}

}  // namespace lowgear::server
