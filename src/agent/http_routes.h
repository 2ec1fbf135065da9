#pragma once

#include <string>
#include <vector>

#include "agent/agent_service.h"
#include "agent/cpu_meter.h"
#include "agent/cpu_power.h"
#include "agent/metrics.h"
#include "agent/route_answer.h"
#include "http/message.h"

namespace lowgear {

/// What the routes answer with.
struct RouteContext {
  AgentService& service;
  CpuPower& cpu_power;
  const Metrics& metrics;
};

/// Answers a request. No I/O of its own, no exceptions: whatever goes wrong becomes a response with a JSON error.
[[nodiscard]] RouteAnswer handle(const HttpRequest& request, const RouteContext& context);

/// The next event of a stream, without the `data: ` around it; empty when there is nothing to tell yet.
[[nodiscard]] std::string stream_event(const PowerStream& stream, const std::vector<GpuStatus>& gpus,
                                       const RouteContext& context);

}  // namespace lowgear
