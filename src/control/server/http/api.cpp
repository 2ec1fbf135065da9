#include "control/server/http/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/monotonic_clock.h"
#include "base/core/number.h"
#include "base/http/message/error.h"
#include "base/http/message/target.h"
#include "control/server/http/api_routes.h"

namespace lowgear {
namespace {

struct Found {
  const ApiRoute* route = nullptr;
  std::vector<std::string> captures;
};

Found find_route(std::string_view method, const HttpTarget& target) {
  std::string allowed;
  for (const ApiRoute& route : api_routes()) {
    std::optional<std::vector<std::string>> captures = match_path(route.pattern, target.segments);
    if (!captures) continue;
    if (route.method == method || (method == "HEAD" && route.method == "GET")) return {&route, std::move(*captures)};
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", route.method);
  }
  if (allowed.empty()) throw HttpError(404, "no_such_path", "there is nothing here; /openapi.json lists what there is");
  throw HttpError(405, "wrong_method", fmt::format("this path takes {}", allowed), {{"Allow", allowed}});
}

void check_parameters(const ApiRoute& route, const HttpTarget& target) {
  for (const auto& [name, value] : target.parameters) {
    if (std::ranges::find(route.parameters, name) != route.parameters.end()) continue;
    throw InputError(
        fmt::format("there is no parameter {}{}", quote(name),
                    route.parameters.empty() ? "" : fmt::format("; there is {}", fmt::join(route.parameters, ", "))));
  }
}

void check_access(const ApiRoute& route, Authenticator& authenticator, const HttpRequest& request) {
  if (route.access == ApiAccess::anybody) return;
  const std::optional<Caller> caller = authenticator.identify(request, Authenticator::Clock::now());
  if (!caller) {
    throw HttpError(401, "no_token",
                    request.peer ? "this user may do nothing here: the server's configuration says who may"
                                 : "send the header Authorization: Bearer TOKEN with a token of the server");
  }
  const Role needed = route.access == ApiAccess::readers ? Role::read
                      : route.access == ApiAccess::ranks ? Role::train
                                                         : Role::admin;
  if (caller->role < needed) throw HttpError(403, "not_allowed", "this token or user may not do that");
}

HttpResponse response_to(const std::exception& error) {
  if (const auto* http = dynamic_cast<const HttpError*>(&error)) return error_response(*http);
  if (dynamic_cast<const InputError*>(&error) != nullptr) return error_response(400, "wrong_input", error.what());
  return error_response(500, "internal", error.what());
}

/// Counts the answer on its way.
class CountedReply final : public HttpReply {
 public:
  CountedReply(std::shared_ptr<HttpReply> reply, const ApiRoute& route, ServerActivity& activity)
      : reply_(std::move(reply)), route_(&route), activity_(&activity), start_s_(monotonic_s()) {}

  void send(HttpResponse response) override {
    // How long a long poll takes says nothing.
    const bool waits = route_->pattern.ends_with("/plan");
    activity_->request(route_->method, route_->pattern, response.status,
                       waits ? std::nullopt : std::optional(monotonic_s() - start_s_));
    reply_->send(std::move(response));
  }
  [[nodiscard]] std::shared_ptr<EventStream> stream(HttpResponse head) override {
    activity_->request(route_->method, route_->pattern, head.status, std::nullopt);
    return reply_->stream(std::move(head));
  }
  [[nodiscard]] bool closed() const override { return reply_->closed(); }
  void on_close(std::function<void()> callback) override { reply_->on_close(std::move(callback)); }

 private:
  std::shared_ptr<HttpReply> reply_;
  const ApiRoute* route_;
  ServerActivity* activity_;
  double start_s_;
};

}  // namespace

const Job& ApiCall::job() const { return control_plane.job(captures.at(0)); }

const FinishedJob* ApiCall::finished_job() const { return control_plane.finished_job(captures.at(0)); }

const LateRank& ApiCall::late_rank(const FinishedJob& of, int rank) const {
  if (const LateRank* late = of.late_rank(rank, request.header("lowgear-rank-key"))) return *late;
  throw job_is_over();
}

JsonView ApiCall::body() {
  // An empty text is no JSON; that is said better here.
  if (request.body.empty()) throw InputError("the request has no body, and needs a JSON object");
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

void ApiCall::require_rank(const Job& of, int rank) const {
  if (of.ranks().owns(rank, request.header("lowgear-rank-key"))) return;
  if (of.is_over()) throw job_is_over();  // a server that starts anew keeps no keys of such jobs
  throw HttpError(403, "not_your_rank",
                  fmt::format("the header Lowgear-Rank-Key is not that of rank {} of this job", rank));
}

Settled ApiCall::answer_when_stored(Json answer, int status) const {
  return [reply = reply, answer = std::move(answer), status](StoreOutcome outcome) {
    switch (outcome) {
      case StoreOutcome::committed:
        return reply->send(json_response(answer, status));
      case StoreOutcome::disk_full: {
        HttpResponse response = error_response(503, "disk_full", "the server's disk is full: send it again later");
        response.headers.emplace_back("Retry-After", "5");
        return reply->send(std::move(response));
      }
      case StoreOutcome::busy: {
        HttpResponse response = error_response(503, "busy",
                                               "the server's disk is too slow, or another program holds its "
                                               "database: send it again later");
        response.headers.emplace_back("Retry-After", "1");
        return reply->send(std::move(response));
      }
      case StoreOutcome::failed:
        return reply->send(error_response(500, "not_stored", "the server could not store it; its log says why"));
    }
  };
}

Api::Api(ControlPlane& control_plane, Authenticator& authenticator, std::function<std::string()> metrics)
    : control_plane_(&control_plane), authenticator_(&authenticator), metrics_(std::move(metrics)) {}

void Api::handle(const HttpRequest& request, std::shared_ptr<HttpReply> reply) {
  try {
    const HttpTarget target = parse_target(request.path, request.query);
    Found found = find_route(request.method, target);
    reply = std::make_shared<CountedReply>(std::move(reply), *found.route, control_plane_->activity());
    check_access(*found.route, *authenticator_, request);
    check_parameters(*found.route, target);
    ApiCall call{.request = request,
                 .target = target,
                 .captures = std::move(found.captures),
                 .control_plane = *control_plane_,
                 .metrics = metrics_,
                 .reply = reply,
                 .document = {}};
    found.route->answer(call);
  } catch (const std::exception& error) {
    reply->send(response_to(error));
  }
}

}  // namespace lowgear
