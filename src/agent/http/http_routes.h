#pragma once

#include <chrono>
#include <compare>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/cpu/cpu_meter.h"
#include "agent/http/metrics.h"
#include "agent/mps/mps_sharing.h"
#include "agent/service/agent_service.h"
#include "base/core/formats/json.h"
#include "base/http/message/error.h"
#include "base/http/message/message.h"
#include "base/http/message/router.h"

namespace lowgear::agent {

/// A stream of power readings that follows a response: one event, or one event a device, for every round of telemetry.
struct PowerStream {
  enum class Format : unsigned char {
    lowgear,    ///< docs/agent.md
    zeusd_gpu,  ///< as RouteContext::zeusd_events says
    zeusd_cpu,
  };
  Format format = Format::lowgear;
  std::vector<int> ids;  ///< GPU indices or CPU packages, ascending; empty for all

  // NOLINTNEXTLINE(modernize-use-nullptr): the 0 of a comparison is no pointer
  friend auto operator<=>(const PowerStream&, const PowerStream&) = default;
};

/// The result of a route: a response, or a way to get it later.
struct RouteAnswer : http::Response {
  RouteAnswer() = default;
  RouteAnswer(http::Response response) : http::Response(std::move(response)) {}  // NOLINT(google-explicit-constructor)

  using Send = std::function<void(http::Response)>;
  /// Requests a response that is not available yet: called once, it passes the response to `send`, at once or later on
  /// the same thread. Empty if the response is here.
  std::function<void(const Send& send)> later;
  /// The events that follow; the body is then empty.
  std::optional<PowerStream> stream;
  /// Where the answer is not known yet: the time after which to ask again. Zero when this is the answer.
  std::chrono::milliseconds ask_again_after{0};
};

/// Formats of the events of zeusd's power streams. The stream does not say which one it has; each release of Zeus reads
/// one of them.
enum class ZeusdEvents : unsigned char {
  /// zeusd 0.5 and later (Zeus 0.16): one event a device, `{"timestamp_ms": 0, "gpu_id": 0, "power_mw": 75000}` and
  /// `{"timestamp_ms": 0, "cpu_id": 0, "cpu_mw": 85000, "dram_mw": null}`
  device,
  /// zeusd 0.3 and 0.4 (Zeus 0.14, 0.15): one event for all, as `/gpu/get_power` and `/cpu/get_power` answer
  snapshot,
};

/// Values that the routes read and call.
struct RouteContext {
  Service& service;
  CpuPower& cpu_power;
  const Metrics& metrics;
  ZeusdEvents zeusd_events = ZeusdEvents::device;
  MpsSharing* mps = nullptr;  ///< null: no GPU is shared by MPS
};

/// Handles a request. Does no I/O and throws nothing: every error becomes a response with a JSON error.
[[nodiscard]] RouteAnswer handle(const http::Request& request, const RouteContext& context);

/// The next events of a stream, each without the `data: ` around it; none when no event is due yet.
[[nodiscard]] std::vector<std::string> stream_events(const PowerStream& stream, const std::vector<GpuStatus>& gpus,
                                                     const RouteContext& context);

/// The error code of an exception of the service: `access_denied` of AccessDenied.
[[nodiscard]] http::ErrorCode agent_error_code_of(const std::exception& error);
/// The response to it, with a JSON error.
[[nodiscard]] http::Response refusal_for(const std::exception& error);

/// A request on its way to the function that answers it.
struct RouteCall {
  const http::Request& request;
  const http::Target& target;
  const RouteContext& context;
  std::vector<std::string> captures;  ///< the text at each `{}` of the pattern

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
  std::vector<std::string_view> parameters;  ///< accepted ones; any other is refused
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

/// As docs/agent.md describes them; values that are not reported are null.
[[nodiscard]] Json to_json(const GpuReading& reading);
[[nodiscard]] Json to_json(const GpuStatus& gpu);
[[nodiscard]] Json to_json(const UnattendedGpu& gpu);
[[nodiscard]] Json to_json(const LeaseStatus& lease);

/// An object with the members that every answer starts with: whether the machine is simulated, whether the agent only
/// pretends to write.
[[nodiscard]] Json answer(const Service& service);

}  // namespace lowgear::agent
