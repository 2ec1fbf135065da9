#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/core/formats/yaml.h"
#include "planning/planner/policies/envpipe/envpipe_options.h"
#include "planning/planner/policies/envpipe/envpipe_start.h"
#include "planning/schedule/schedule.h"

namespace lowgear::launcher {

/// EnvPipe's reconfiguration inside the running job (docs/training.md): `energy.policy: envpipe` and the section
/// `energy.envpipe`.
struct EnvPipeConfig {
  planner::EnvPipeOptions options;
  /// A stage profile, from which the clocks of least energy come; empty: from a sweep in the job's first steps.
  std::optional<std::filesystem::path> profile;
  std::string blocking_power;  ///< with `profile`: watts of a GPU that waits, or the file that has them by stage
  std::optional<std::filesystem::path> log;  ///< receives and decisions of each step
};

/// Reads the section, of a job of so many pipeline ranks and microbatches. Paths are relative to `folder`. Throws
/// InputError with file, line and column.
[[nodiscard]] EnvPipeConfig read_envpipe(const YamlView& map, const std::filesystem::path& folder, int ranks,
                                         int microbatches);

/// What EnvPipe's profiling finds on the configured profile. Throws InputError when the profile or the blocking power
/// cannot be read, or does not fit the schedule.
[[nodiscard]] planner::EnvPipeFindings findings_on_profile(const EnvPipeConfig& config,
                                                           const schedule::Schedule& schedule);

}  // namespace lowgear::launcher
