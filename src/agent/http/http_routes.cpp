#include "agent/http/http_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "base/core/formats/json.h"
#include "base/core/numbers/number.h"
#include "base/core/units.h"
#include "base/core/version.h"
#include "base/http/message/router.h"
#include "hardware/gpu/gpu_setting.h"

namespace lowgear::agent {
namespace {

constexpr std::size_t kMaxBodyValues = 64;

JsonView body_view(const Json& body) { return {body, "body"}; }

Json parse_body(const RouteCall& call) {
  if (call.request.body.empty()) throw InputError("body: is empty; send a JSON object");
  return parse_json(call.request.body, "body", kMaxBodyValues);
}

const Peer& peer(const RouteCall& call) { return *call.request.peer; }

std::optional<GpuStatus> find(Service& service, std::string_view gpu) {
  std::vector<GpuStatus> gpus = service.gpus();
  const auto found = std::ranges::find_if(gpus, [&](const GpuStatus& each) { return is_called(each.identity, gpu); });
  if (found == gpus.end()) return std::nullopt;
  return std::move(*found);
}

http::Response gpu_response(Service& service, const std::string& name) {
  const std::optional<GpuStatus> gpu = find(service, name);
  if (!gpu) throw NotFound(fmt::format("there is no GPU {}; GET /v1/gpus lists them", quote(name)));
  Json body = answer(service);
  body["gpu"] = to_json(*gpu);
  return http::json_response(body);
}

RouteAnswer gpu_answer(const RouteCall& call) { return gpu_response(call.context.service, call.captures[0]); }

/// Answers once the agent has done what `ask` asks it for, with the response as it is then.
RouteAnswer answer_when_done(std::function<void(WriteDone)> ask, std::function<http::Response()> response) {
  RouteAnswer answer;
  answer.later = [ask = std::move(ask), response = std::move(response)](const RouteAnswer::Send& send) {
    ask([response, send](const std::exception_ptr& error) {
      try {
        if (error) std::rethrow_exception(error);
        send(response());
      } catch (const std::exception& failure) {
        send(refusal_for(failure));
      }
    });
  };
  return answer;
}

/// Answers with the GPU once it is set.
RouteAnswer answer_when_set(const RouteCall& call, const gpu::GpuSetting& setting) {
  Service& service = call.context.service;
  const std::string& gpu = call.captures[0];
  return answer_when_done(
      [&service, who = peer(call), gpu, setting](WriteDone done) { service.apply(who, gpu, setting, std::move(done)); },
      [&service, gpu] { return gpu_response(service, gpu); });
}

RouteAnswer get_gpus(const RouteCall& call) {
  Json body = answer(call.context.service);
  body["driver_version"] = call.context.service.driver_version();
  body["gpus"] = Json::array();
  for (const GpuStatus& gpu : call.context.service.gpus()) body["gpus"].push_back(to_json(gpu));
  body["unattended"] = Json::array();
  for (const UnattendedGpu& gpu : call.context.service.unattended_gpus()) body["unattended"].push_back(to_json(gpu));
  return http::json_response(body);
}

RouteAnswer get_leases(const RouteCall& call) {
  Json body = answer(call.context.service);
  body["leases"] = Json::array();
  for (const LeaseStatus& lease : call.context.service.leases()) body["leases"].push_back(to_json(lease));
  return http::json_response(body);
}

RouteAnswer delete_lease(const RouteCall& call) {
  const std::optional<long long> id = parse_integer(call.captures[0]);
  if (!id || *id < 0)
    throw NotFound(fmt::format("there is no lease {}; GET /v1/leases lists them", quote(call.captures[0])));
  call.context.service.release(peer(call), static_cast<std::uint64_t>(*id));
  Json body = answer(call.context.service);
  body["released"] = *id;
  return http::json_response(body);
}

std::string name_of_job(const JsonView& view) {
  constexpr std::size_t kMostBytes = 200;
  std::string name = view.text();
  if (name.empty() || name.size() > kMostBytes) view.fail("needs 1 to 200 bytes");
  return name;
}

RouteAnswer put_assignment(const RouteCall& call) {
  const Json body = parse_body(call);
  const JsonView view = body_view(body);
  require_members(view, {"uid", "job", "sluid"});
  const long long uid = view.at("uid").integer();
  if (uid < 0 || uid >= UINT32_MAX) view.at("uid").fail("is no user");
  GpuAssignment assignment{.uid = static_cast<uid_t>(uid), .job = name_of_job(view.at("job"))};
  if (view.has("sluid")) assignment.sluid = name_of_job(view.at("sluid"));
  call.context.service.assign(peer(call), call.captures[0], std::move(assignment));
  return gpu_response(call.context.service, call.captures[0]);
}

RouteAnswer delete_assignment(const RouteCall& call) {
  call.context.service.give_back(peer(call), call.captures[0], call.parameter("job"));
  return gpu_response(call.context.service, call.captures[0]);
}

/// The readings of all GPUs, in one line.
std::string power_text(const Service& service, const std::vector<GpuStatus>& gpus) {
  Json event = answer(service);
  event["gpus"] = Json::array();
  for (const GpuStatus& gpu : gpus) {
    Json reading = {{"uuid", gpu.identity.uuid}, {"healthy", gpu.healthy}};
    reading.update(to_json(gpu.reading));
    event["gpus"].push_back(std::move(reading));
  }
  std::string text = http::to_text(event);
  text.pop_back();  // the line feed
  return text;
}

RouteAnswer get_power(const RouteCall& call) {
  if (call.has("stream")) {
    const std::string& value = call.parameter("stream");
    if (value.empty() || call.boolean("stream")) {
      RouteAnswer response;
      response.stream = PowerStream{.format = PowerStream::Format::lowgear, .ids = {}};
      return response;
    }
  }
  return http::Response::with_body(200, "application/json",
                                   power_text(call.context.service, call.context.service.gpus()) + "\n");
}

/// Locks the clocks that `Lock` is for to the range of the body.
template <typename Lock>
RouteAnswer lock_clocks(const RouteCall& call) {
  const Json body = parse_body(call);
  require_members(body_view(body), {"min_mhz", "max_mhz"});
  const int min_mhz = body_view(body).at("min_mhz").integer_in(1, kMaxClockMhz);
  const int max_mhz = body_view(body).at("max_mhz").integer_in(1, kMaxClockMhz);
  if (min_mhz > max_mhz) {
    body_view(body).at("min_mhz").fail(fmt::format("{} MHz is above max_mhz, {} MHz", min_mhz, max_mhz));
  }
  return answer_when_set(call, Lock{min_mhz, max_mhz});
}

RouteAnswer delete_clocks(const RouteCall& call) { return answer_when_set(call, gpu::ResetSmClocks{}); }

RouteAnswer delete_memory_clocks(const RouteCall& call) { return answer_when_set(call, gpu::ResetMemoryClocks{}); }

RouteAnswer post_power_limit(const RouteCall& call) {
  const Json body = parse_body(call);
  require_members(body_view(body), {"power_limit_w"});
  const JsonView limit = body_view(body).at("power_limit_w");
  const double power_limit_w = limit.number();
  if (power_limit_w <= 0 || power_limit_w > gpu::kMaxPowerW) {
    limit.fail(fmt::format("{} W is not a power limit", power_limit_w), "GET /v1/gpus shows the GPU's range");
  }
  return answer_when_set(call, gpu::SetPowerLimit{power_limit_w});
}

/// The driver has no reset: its default limit is set.
RouteAnswer delete_power_limit(const RouteCall& call) {
  const std::string& name = call.captures[0];
  const std::optional<GpuStatus> gpu = find(call.context.service, name);
  if (!gpu) throw NotFound(fmt::format("there is no GPU {}; GET /v1/gpus lists them", quote(name)));
  if (!gpu->power_limits) {
    throw gpu::GpuError(gpu::GpuErrorCode::not_supported, fmt::format("GPU {} reports no default power limit", name));
  }
  return answer_when_set(call, gpu::SetPowerLimit{gpu->power_limits->default_w});
}

gpu::WorkloadPowerProfileSet parse_profiles(const JsonView& list) {
  gpu::WorkloadPowerProfileSet profiles;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string name = list.at(i).text();
    const std::optional<std::size_t> profile = gpu::find_workload_power_profile(name);
    if (!profile) {
      list.at(i).fail(fmt::format("there is no workload power profile {}", quote(name)),
                      "GET /v1/gpus shows those that the GPU supports");
    }
    profiles.set(*profile);
  }
  return profiles;
}

RouteAnswer post_power_profiles(const RouteCall& call) {
  const Json body = parse_body(call);
  require_members(body_view(body), {"profiles"});
  return answer_when_set(call,
                         gpu::RequestWorkloadPowerProfiles{.profiles = parse_profiles(body_view(body).at("profiles"))});
}

RouteAnswer delete_power_profiles(const RouteCall& call) {
  return answer_when_set(call, gpu::RequestWorkloadPowerProfiles{});
}

RouteAnswer post_power_smoothing(const RouteCall& call) {
  constexpr int kMaxPreset = 254;
  const Json body = parse_body(call);
  const JsonView view = body_view(body);
  require_members(view, {"enabled", "preset"});
  gpu::SetPowerSmoothing setting{.enabled = view.at("enabled").boolean(), .preset = {}};
  if (view.has("preset")) setting.preset = view.at("preset").integer_in(0, kMaxPreset);
  return answer_when_set(call, setting);
}

RouteAnswer post_restore(const RouteCall& call) {
  Service& service = call.context.service;
  return answer_when_done([&service, who = peer(call)](WriteDone done) { service.restore_all(who, std::move(done)); },
                          [&service] {
                            Json body = answer(service);
                            body["restored"] = true;
                            return http::json_response(body);
                          });
}

RouteAnswer get_version(const RouteCall& call) {
  Json body = answer(call.context.service);
  body["version"] = version();
  body["driver_version"] = call.context.service.driver_version();
  return http::json_response(body);
}

RouteAnswer get_health(const RouteCall& call) {
  const std::vector<GpuStatus> gpus = call.context.service.gpus();
  const auto healthy = std::ranges::count_if(gpus, &GpuStatus::healthy);
  Json problems = Json::array();
  for (const GpuStatus& gpu : gpus) {
    if (!gpu.healthy || gpu.clock_state == ClockState::failed) {
      problems.push_back(fmt::format("{}: {}", gpu.identity.uuid, gpu.problem));
    }
    if (gpu.energy_counter.present && !gpu.energy_counter.works) {
      problems.push_back(fmt::format("{}: {}", gpu.identity.uuid, gpu.energy_counter.problem));
    }
  }
  for (const UnattendedGpu& gpu : call.context.service.unattended_gpus()) problems.push_back(gpu.problem);
  Json body = answer(call.context.service);
  body["status"] = problems.empty() ? "ok" : "degraded";
  body["gpus"] = gpus.size();
  body["healthy_gpus"] = healthy;
  body["problems"] = std::move(problems);
  return http::json_response(body);
}

RouteAnswer get_metrics(const RouteCall& call) {
  return http::Response::with_body(
      200, metrics::kMetricsContentType,
      call.context.metrics.gather(call.context.service, call.context.cpu_power.energy(), call.context.mps).text());
}

const std::vector<Route>& own_routes() {
  static const std::vector<Route> routes = {
      {"GET", "/v1/gpus", Access::readers, {}, get_gpus},
      {"GET", "/v1/gpus/{}", Access::readers, {}, gpu_answer},
      {"POST", "/v1/gpus/{}/clocks", Access::owners, {}, lock_clocks<gpu::LockSmClocks>},
      {"DELETE", "/v1/gpus/{}/clocks", Access::owners, {}, delete_clocks},
      {"POST", "/v1/gpus/{}/memory_clocks", Access::owners, {}, lock_clocks<gpu::LockMemoryClocks>},
      {"DELETE", "/v1/gpus/{}/memory_clocks", Access::owners, {}, delete_memory_clocks},
      {"POST", "/v1/gpus/{}/power_limit", Access::owners, {}, post_power_limit},
      {"DELETE", "/v1/gpus/{}/power_limit", Access::owners, {}, delete_power_limit},
      {"POST", "/v1/gpus/{}/workload_power_profiles", Access::owners, {}, post_power_profiles},
      {"DELETE", "/v1/gpus/{}/workload_power_profiles", Access::owners, {}, delete_power_profiles},
      {"POST", "/v1/gpus/{}/power_smoothing", Access::owners, {}, post_power_smoothing},
      {"PUT", "/v1/gpus/{}/assignment", Access::owners, {}, put_assignment},
      {"DELETE", "/v1/gpus/{}/assignment", Access::owners, {"job"}, delete_assignment},
      {"GET", "/v1/leases", Access::readers, {}, get_leases},
      {"DELETE", "/v1/leases/{}", Access::owners, {}, delete_lease},
      {"GET", "/v1/power", Access::readers, {"stream"}, get_power},
      {"POST", "/v1/restore", Access::owners, {}, post_restore},
      {"GET", "/v1/version", Access::anybody, {}, get_version},
      {"GET", "/healthz", Access::anybody, {}, get_health},
      {"GET", "/metrics", Access::readers, {}, get_metrics},
  };
  return routes;
}

void require_access(const Route& route, const RouteCall& call) {
  if (route.access == Access::anybody) return;
  const std::optional<Peer>& who = call.request.peer;
  if (route.access == Access::owners && !who) {
    throw http::HttpError(
        http::ErrorCode::not_attested,
        "this changes the GPU and is accepted only on the Unix socket: over TCP the caller cannot be identified");
  }
  if (who && !call.context.service.may_read(*who)) {
    throw AccessDenied(fmt::format("user {} may not use this agent; its configuration says who may", who->uid));
  }
}

/// Lowgear's own, with those of MPS, and zeusd's.
const std::vector<Route>& all_routes() {
  static const std::vector<Route> routes = [] {
    std::vector<Route> all = own_routes();
    all.insert(all.end(), mps_routes().begin(), mps_routes().end());
    all.insert(all.end(), zeusd_routes().begin(), zeusd_routes().end());
    return all;
  }();
  return routes;
}

RouteAnswer dispatch(const http::Request& request, const RouteContext& context) {
  static const http::Router router(http::routes_of(all_routes()), "docs/agent.md");
  const http::Target target = http::parse_target(request.path, request.query);
  http::Router::Match match = router.find(request, target);
  const Route& route = all_routes()[match.route];
  const RouteCall call{request, target, context, std::move(match.captures)};
  require_access(route, call);
  require_known_parameters(route.parameters, target);
  return route.answer(call);
}

/// Also where the body cannot say it: zeusd's replies are maps from GPU to value, and metrics are text.
std::vector<std::pair<std::string, std::string>> machine_headers(const Service& service) {
  std::vector<std::pair<std::string, std::string>> headers;
  if (service.simulated()) headers.emplace_back("Lowgear-Simulated", "true");
  if (service.dry_run()) headers.emplace_back("Lowgear-Dry-Run", "true");
  return headers;
}

http::ErrorCode error_code_of(gpu::GpuErrorCode code) {
  switch (code) {
    case gpu::GpuErrorCode::not_supported:
      return http::ErrorCode::not_supported;
    case gpu::GpuErrorCode::invalid_value:
      return http::ErrorCode::invalid_value;
    case gpu::GpuErrorCode::timeout:
      return http::ErrorCode::driver_timeout;
    case gpu::GpuErrorCode::gpu_lost:
      return http::ErrorCode::gpu_lost;
    case gpu::GpuErrorCode::driver_missing:
      return http::ErrorCode::driver_missing;
    case gpu::GpuErrorCode::no_permission:
      return http::ErrorCode::no_permission;
    case gpu::GpuErrorCode::driver_error:
      return http::ErrorCode::driver_error;
  }
  return http::ErrorCode::internal;
}

}  // namespace

const std::string& RouteCall::parameter(std::string_view name) const {
  const auto found = target.parameters.find(name);
  if (found == target.parameters.end()) throw InputError(fmt::format("parameter {} is missing", name));
  return found->second;
}

bool RouteCall::boolean(std::string_view name) const {
  const std::string& value = parameter(name);
  if (value != "true" && value != "false") {
    throw InputError(fmt::format("parameter {}: expected true or false, not {}", name, quote(value)));
  }
  return value == "true";
}

long long RouteCall::integer(std::string_view name, long long low, long long high) const {
  const std::string& value = parameter(name);
  const std::optional<long long> number = parse_integer(value);
  if (!number || *number < low || *number > high) {
    throw InputError(
        fmt::format("parameter {}: expected a whole number from {} to {}, not {}", name, low, high, quote(value)));
  }
  return *number;
}

http::ErrorCode agent_error_code_of(const std::exception& error) {
  if (dynamic_cast<const AccessDenied*>(&error) != nullptr) return http::ErrorCode::access_denied;
  if (dynamic_cast<const GpuBusy*>(&error) != nullptr) return http::ErrorCode::gpu_busy;
  if (dynamic_cast<const NotFound*>(&error) != nullptr) return http::ErrorCode::not_found;
  if (const auto* gpu = dynamic_cast<const gpu::GpuError*>(&error)) return error_code_of(gpu->code());
  return http::error_code_of(error);
}

http::Response refusal_for(const std::exception& error) {
  if (const auto* http = dynamic_cast<const http::HttpError*>(&error)) return error_response(*http);
  return error_response(agent_error_code_of(error), error.what());
}

RouteAnswer handle(const http::Request& request, const RouteContext& context) {
  RouteAnswer response;
  try {
    response = dispatch(request, context);
  } catch (const std::exception& error) {
    response = refusal_for(error);
  }
  const auto complete = [headers = machine_headers(context.service)](http::Response& answer) {
    answer.headers.insert(answer.headers.end(), headers.begin(), headers.end());
  };
  complete(response);
  if (!response.later) return response;
  response.later = [later = std::move(response.later), complete](const RouteAnswer::Send& send) {
    const auto send_complete = [send, complete](http::Response answer) {
      complete(answer);
      send(std::move(answer));
    };
    try {
      later(send_complete);
    } catch (const std::exception& error) {
      send_complete(refusal_for(error));
    }
  };
  return response;
}

std::vector<std::string> stream_events(const PowerStream& stream, const std::vector<GpuStatus>& gpus,
                                       const RouteContext& context) {
  if (stream.format != PowerStream::Format::lowgear) return zeusd_stream_events(stream, gpus, context);
  return {power_text(context.service, gpus)};
}

}  // namespace lowgear::agent
