#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "base/http/message/router.h"
#include "base/http/server/reply.h"
#include "server/fleet/control_plane.h"
#include "server/http/access_tokens.h"
#include "server/http/api.h"

namespace lowgear::server {

/// Values that a request's body may have: 1,000 reports of 10 members, and more.
inline constexpr std::size_t kMaxBodyValues = 2'000'000;

enum class ApiAccess : unsigned char {
  anybody,  ///< shows nothing of jobs
  readers,
  ranks,  ///< training processes; what belongs to a rank needs its key, too
  admins,
  agents,  ///< of nodes; which node one may speak for is its token's
};

/// The scope that a caller needs; empty: none.
[[nodiscard]] std::optional<Scope> scope_of(ApiAccess access);

/// A request on its way to the function that answers it.
struct ApiCall {
  const http::Request& request;
  const http::Target& target;
  std::vector<std::string> captures;  ///< what stood for each `{}` of the pattern
  ControlPlane& control_plane;
  const ApiEnvironment& environment;
  std::shared_ptr<http::Reply> reply;
  std::shared_ptr<const NodeNames> nodes;  ///< that the caller may speak for; null: none
  Json document;                           ///< the body, once it was asked for

  /// That of the first capture. Throws HttpError 404, and 409 when it is over and archived.
  [[nodiscard]] const JobRecord& job() const;
  /// That of the first capture when it is over and archived, else null. Throws HttpError 404.
  [[nodiscard]] const FinishedJob* finished_job() const;
  /// The rank of a job that is over. Throws HttpError 409 unless the request has its key, and it may be late.
  [[nodiscard]] const LateRank& late_rank(const FinishedJob& of, int rank) const;
  /// Throws InputError when it is no JSON.
  [[nodiscard]] JsonView body();
  /// The parameter, or `fallback` when it was not sent. Throws InputError when it is none in [low, high].
  [[nodiscard]] double number(std::string_view name, double fallback, double low, double high) const;
  [[nodiscard]] long long integer(std::string_view name, long long fallback, long long low, long long high) const;
  /// Throws HttpError 403 unless the request has the key of that rank.
  void require_rank(const JobRecord& of, int rank) const;
  /// Sends the response after the change is on disk, or an error if it cannot be stored.
  [[nodiscard]] OnCommitted on_committed(Json answer, int status = 200) const;
};

struct ApiRoute {
  std::string_view method;
  std::string_view pattern;  ///< `/v1/jobs/{}/plan`
  ApiAccess access;
  std::vector<std::string_view> parameters;  ///< those it takes; any other is refused
  void (*answer)(ApiCall& call);

  /// Whether a caller may ask it to respond later (`wait_s`): its time says nothing of the server.
  [[nodiscard]] bool waits() const { return std::ranges::find(parameters, "wait_s") != parameters.end(); }
};

[[nodiscard]] std::span<const ApiRoute> api_routes();

/// Replies with the plan, or with 204 where there is no newer one.
[[nodiscard]] Pending<PlanText> pending_plan(const std::shared_ptr<http::Reply>& reply);
[[nodiscard]] Pending<protocol::NodeShares> pending_shares(const std::shared_ptr<http::Reply>& reply);

}  // namespace lowgear::server
