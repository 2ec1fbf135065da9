#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent_service.h"
#include "agent/cpu_meter.h"
#include "agent/cpu_power.h"
#include "agent/http_message.h"
#include "agent/metrics.h"

namespace lowgear {

/// What the routes answer with.
struct RouteContext {
  AgentService& service;
  CpuPower& cpu_power;
  const Metrics& metrics;
};

/// What a request's path and query say, percent-decoded. Parameters may come once each.
struct HttpTarget {
  std::vector<std::string> segments;  ///< `/v1/gpus` is {`v1`, `gpus`}
  std::map<std::string, std::string, std::less<>> parameters;
};

/// Throws InputError for a path that is not absolute, a wrong percent-encoding, or a parameter that comes twice.
[[nodiscard]] HttpTarget parse_target(std::string_view path, std::string_view query);

/// Answers a request. No I/O of its own, no exceptions: whatever goes wrong becomes a response with a JSON error.
[[nodiscard]] HttpResponse handle(const HttpRequest& request, const RouteContext& context);

/// An answer `{"error": {"message", "code"}}`.
[[nodiscard]] HttpResponse error_response(int status, std::string_view code, std::string_view message);

/// The next event of a stream, without the `data: ` around it; empty when there is nothing to tell yet.
[[nodiscard]] std::string stream_event(const PowerStream& stream, const std::vector<GpuStatus>& gpus,
                                       const RouteContext& context);

}  // namespace lowgear
