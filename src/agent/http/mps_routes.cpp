#include <fmt/format.h>

#include <array>
#include <chrono>
#include <limits>
#include <optional>

#include "agent/http/http_routes.h"
#include "agent/lease/lease_table.h"
#include "agent/mps/mps_sharing.h"
#include "base/core/formats/json.h"
#include "base/core/numbers/number.h"

namespace lowgear::agent {
namespace {

constexpr std::size_t kMaxShareValues = 16;
constexpr std::size_t kMaxClientBytes = 128;

MpsSharing& sharing(const RouteCall& call) {
  if (call.context.mps == nullptr) {
    throw NotFound("this agent runs no MPS daemon; its configuration names GPUs in mps.gpus for that");
  }
  return *call.context.mps;
}

Json to_json(const MpsDaemonStatus& daemon) {
  return {{"gpu_uuid", daemon.gpu_uuid},
          {"state", std::string(name(daemon.state))},
          {"pid", daemon.pid == 0 ? Json(nullptr) : Json(daemon.pid)},
          {"restarts", daemon.restarts},
          {"problem", daemon.problem.empty() ? Json(nullptr) : Json(daemon.problem)},
          {"pipe_directory", daemon.pipe_directory.empty() ? Json(nullptr) : Json(daemon.pipe_directory)},
          {"sum_percent", daemon.sum_percent}};
}

Json to_json(const MpsShare& share) {
  return {{"id", share.id},
          {"gpu_uuid", share.gpu_uuid},
          {"percent", share.request.percent},
          {"client", share.request.client},
          {"job", share.request.job.empty() ? Json(nullptr) : Json(share.request.job)},
          {"rank", or_null(share.request.rank)},
          {"uid", share.owner.uid},
          {"user", user_name(share.owner.uid)},
          {"pid", share.process.pid},
          {"age_s", std::chrono::duration<double>(std::chrono::steady_clock::now() - share.since).count()}};
}

/// A name that is shown in status, log and metrics.
std::string name_in(const JsonView& body, const char* member) {
  if (!body.has(member)) return {};
  std::string text = body.at(member).text();
  if (text.size() > kMaxClientBytes || printable(text) != text) {
    body.at(member).fail(fmt::format("a name has at most {} characters, all of them printable", kMaxClientBytes));
  }
  return text;
}

MpsShareRequest parse_request(const RouteCall& call) {
  if (call.request.body.empty()) throw InputError("body: is empty; send a JSON object");
  const Json body = parse_json(call.request.body, "body", kMaxShareValues);
  const JsonView view(body, "body");
  require_members(view, {"percent", "client", "job", "rank"});
  MpsShareRequest request;
  request.percent = view.at("percent").integer_in(1, 100);
  request.client = name_in(view, "client");
  request.job = name_in(view, "job");
  if (view.has("rank")) {
    request.rank = static_cast<std::uint32_t>(view.at("rank").integer_in(0, std::numeric_limits<int>::max()));
  }
  return request;
}

RouteAnswer get_mps(const RouteCall& call) {
  const MpsSharing& mps = sharing(call);
  Json body = answer(call.context.service);
  body["daemons"] = Json::array();
  for (const MpsDaemonStatus& daemon : mps.daemons()) body["daemons"].push_back(to_json(daemon));
  body["shares"] = Json::array();
  for (const auto& [id, share] : mps.shares().all()) body["shares"].push_back(to_json(share));
  return http::json_response(body);
}

RouteAnswer post_share(const RouteCall& call) {
  MpsSharing& mps = sharing(call);
  const MpsShare& share =
      mps.open(*call.request.peer, call.captures[0], parse_request(call), call.context.service.leases());
  Json body = answer(call.context.service);
  body["share"] = to_json(share);
  body["environment"] = mps.environment_of(share);
  body["sum_percent"] = mps.shares().sum_percent(share.gpu_uuid);
  body["reserved"] = false;
  return http::json_response(body);
}

RouteAnswer delete_share(const RouteCall& call) {
  const std::optional<long long> id = parse_integer(call.captures[0]);
  if (!id || *id < 0)
    throw NotFound(fmt::format("there is no share {}; GET /v1/mps lists them", quote(call.captures[0])));
  sharing(call).close(*call.request.peer, static_cast<std::uint64_t>(*id));
  Json body = answer(call.context.service);
  body["closed"] = *id;
  return http::json_response(body);
}

}  // namespace

std::span<const Route> mps_routes() {
  static const std::array<Route, 3> routes = {{
      {"GET", "/v1/mps", Access::readers, {}, get_mps},
      {"POST", "/v1/gpus/{}/shares", Access::owners, {}, post_share},
      {"DELETE", "/v1/shares/{}", Access::owners, {}, delete_share},
  }};
  return routes;
}

}  // namespace lowgear::agent
