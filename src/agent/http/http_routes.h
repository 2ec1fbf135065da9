#pragma once

#include <string>
#include <vector>

#include "agent/cpu/cpu_meter.h"
#include "agent/cpu/cpu_power.h"
#include "agent/http/metrics.h"
#include "agent/http/route_answer.h"
#include "agent/mps/mps_sharing.h"
#include "agent/service/agent_service.h"
#include "base/http/message/message.h"

namespace lowgear::agent {

/// What the events of zeusd's power streams are like. A client cannot tell which one it reads, and each release of Zeus
/// reads one.
enum class ZeusdEvents : unsigned char {
  /// zeusd 0.5 and later (Zeus 0.16): one event a device, `{"timestamp_ms": 0, "gpu_id": 0, "power_mw": 75000}` and
  /// `{"timestamp_ms": 0, "cpu_id": 0, "cpu_mw": 85000, "dram_mw": null}`
  device,
  /// zeusd 0.3 and 0.4 (Zeus 0.14, 0.15): one event for all, as `/gpu/get_power` and `/cpu/get_power` answer
  snapshot,
};

/// What the routes answer with.
struct RouteContext {
  Service& service;
  CpuPower& cpu_power;
  const Metrics& metrics;
  ZeusdEvents zeusd_events = ZeusdEvents::device;
  MpsSharing* mps = nullptr;  ///< null: no GPU is shared by MPS
};

/// Handles a request. Does no I/O and throws nothing: every error becomes a response with a JSON error.
[[nodiscard]] RouteAnswer handle(const http::Request& request, const RouteContext& context);

/// The next events of a stream, each without the `data: ` around it; none when there is nothing to tell yet.
[[nodiscard]] std::vector<std::string> stream_events(const PowerStream& stream, const std::vector<GpuStatus>& gpus,
                                                     const RouteContext& context);

}  // namespace lowgear::agent
