#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/http/http_routes.h"
#include "base/http/message/error.h"
#include "base/http/message/router.h"

namespace lowgear::agent {

/// The code of what the service threw: `access_denied` of AccessDenied.
[[nodiscard]] http::ErrorCode agent_error_code_of(const std::exception& error);
/// The response to it, with a JSON error.
[[nodiscard]] http::Response refusal_for(const std::exception& error);

/// A request on its way to the function that answers it.
struct RouteCall {
  const http::Request& request;
  const http::Target& target;
  const RouteContext& context;
  std::vector<std::string> captures;  ///< what stood for each `{}` of the pattern

  /// The parameter; throws InputError when it is missing.
  [[nodiscard]] const std::string& parameter(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return target.parameters.contains(name); }
  /// `true` or `false`, nothing else.
  [[nodiscard]] bool boolean(std::string_view name) const;
  /// A whole number in [low, high].
  [[nodiscard]] long long integer(std::string_view name, long long low, long long high) const;
};

enum class Access : unsigned char {
  anybody,  ///< reveals nothing about users and load of the machine
  readers,  ///< peers that may read telemetry, and whoever reaches the TCP port
  owners,   ///< changes something: only for peers that the kernel attests; the service decides what they may
};

struct Route {
  std::string_view method;
  std::string_view pattern;  ///< `/v1/gpus/{}/clocks`
  Access access;
  std::vector<std::string_view> parameters;  ///< those it takes; any other is refused
  RouteAnswer (*answer)(const RouteCall& call);
};

/// Paths and replies of zeusd 0.3 to 0.5, and of Zeus' master of 2026-08-20 (docs/agent.md).
[[nodiscard]] std::span<const Route> zeusd_routes();

/// Shares of GPUs by MPS.
[[nodiscard]] std::span<const Route> mps_routes();

/// The next events of a zeusd stream.
[[nodiscard]] std::vector<std::string> zeusd_stream_events(const PowerStream& stream,
                                                           const std::vector<GpuStatus>& gpus,
                                                           const RouteContext& context);

}  // namespace lowgear::agent
