#pragma once

#include "agent/service/agent_service.h"
#include "base/core/formats/json.h"

namespace lowgear::agent {

/// As docs/agent.md describes them; what is not reported is null.
[[nodiscard]] Json to_json(const GpuReading& reading);
[[nodiscard]] Json to_json(const GpuStatus& gpu);
[[nodiscard]] Json to_json(const UnattendedGpu& gpu);
[[nodiscard]] Json to_json(const LeaseStatus& lease);

/// An object with the members that every answer starts with: whether the machine is simulated, whether the agent only
/// pretends to write.
[[nodiscard]] Json answer(const Service& service);

}  // namespace lowgear::agent
