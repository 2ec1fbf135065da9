#pragma once

#include <string>

#include "agent/config/config.h"
#include "hardware/gpu/gpu.h"

namespace lowgear::agent {

/// What an agent with this configuration would do: to which GPU, for which users, within which limits, and where it
/// would listen. A few lines for each GPU. Only reads.
[[nodiscard]] std::string preview_of_agent(const Config& config, const gpu::GpuSystem& system);

}  // namespace lowgear::agent
