#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/yaml.h"
#include "planning/planner/policies/envpipe/envpipe_options.h"
#include "planning/planner/policies/envpipe/envpipe_start.h"
#include "planning/schedule/schedule.h"

namespace lowgear::launcher {

/// EnvPipe's reconfiguration inside the running job (docs/training.md): `energy.policy: envpipe` and the section
/// `energy.envpipe`.
struct EnvPipeConfig {
  planner::EnvPipeOptions options;  ///< but for the memory, which EnvPipeMemory has
  /// A stage profile, from which the clocks of least energy come; empty: from a sweep in the job's first steps.
  std::optional<std::filesystem::path> profile;
  std::string blocking_power;  ///< with `profile`: watts of a GPU that waits, or the file that has them by stage
  std::optional<std::filesystem::path> log;  ///< receives and decisions of each step
};

/// Members of the section, the first of which is not the policy's alone.
inline constexpr auto kEnvPipeMembers =
    std::to_array<std::string_view>({"memory_limit", "config", "type", "scheduling", "reconfig", "threshold_scale",
                                     "start_clock", "lowest_clock", "profile_step", "raise_step", "transfer_ms",
                                     "profile", "blocking_power", "log"});

/// Reads the section but for its `memory_limit`. Paths are relative to `folder`. Throws InputError with file, line and
/// column.
[[nodiscard]] EnvPipeConfig read_envpipe(const YamlView& map, const std::filesystem::path& folder);

/// The bytes that the configured profile states of a microbatch's activations by stage; empty: it states none.
[[nodiscard]] std::vector<double> profiled_activation_bytes(const EnvPipeConfig& config);

/// What EnvPipe's profiling finds on the configured profile. Throws InputError when the profile or the blocking power
/// cannot be read, or does not fit the schedule.
[[nodiscard]] planner::EnvPipeFindings findings_on_profile(const EnvPipeConfig& config,
                                                           const schedule::Schedule& schedule);
/// The same for its own order of so many ranks, with one stage each. Throws InputError as findings_on_profile.
[[nodiscard]] planner::EnvPipeFindings order_findings_on_profile(const EnvPipeConfig& config, int ranks,
                                                                 int microbatches);

}  // namespace lowgear::launcher
