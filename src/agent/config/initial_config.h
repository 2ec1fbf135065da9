#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hardware/gpu/nvml_survey.h"

namespace lowgear::agent {

/// Input of a machine's first configuration.
struct InitialConfig {
  std::vector<gpu::GpuSurvey> gpus;
  std::string group;  ///< whose members may lock clocks
  /// Folder for journal and sockets of an agent that may not use the system's folders; empty: the system's.
  std::filesystem::path folder;
};

/// Whether the agent can set the clocks of this GPU: it has locked clocks, and MIG is off.
[[nodiscard]] bool can_follow_plans(const gpu::GpuSurvey& gpu);

/// Writes the YAML that `parse_agent_config` reads. It names every GPU that can follow plans by its UUID, and the
/// others in comments. Members of the group may lock SM clocks and read telemetry; every other right stays closed.
[[nodiscard]] std::string initial_config_text(const InitialConfig& config);

}  // namespace lowgear::agent
