#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/core/formats/yaml.h"
#include "planning/planner/policies/envpipe/envpipe_options.h"
#include "planning/planner/policies/envpipe/envpipe_start.h"
#include "planning/schedule/schedule.h"

namespace lowgear::launcher {

/// EnvPipe's reconfiguration inside the running job (docs/training.md): `energy.policy: envpipe` and the section
/// `energy.envpipe`.
struct EnvPipeConfig {
  planner::EnvPipeOptions options;
  /// Bytes that activations may take, as `joint::parse_memory_limit` reads them: divided by what a microbatch's take
  /// when the order is chosen. Empty: `options` have the activations that fit.
  std::string memory_bytes = {};
  /// A stage profile, from which the clocks of least energy come; empty: from a sweep in the job's first steps.
  std::optional<std::filesystem::path> profile;
  std::string blocking_power;  ///< with `profile`: watts of a GPU that waits, or the file that has them by stage
  std::optional<std::filesystem::path> log;  ///< receives and decisions of each step
};

/// Reads the section, of a job of so many pipeline ranks and microbatches. Paths are relative to `folder`. Throws
/// InputError with file, line and column.
[[nodiscard]] EnvPipeConfig read_envpipe(const YamlView& map, const std::filesystem::path& folder, int ranks,
                                         int microbatches);

/// The activations that fit beyond those of 1F1B, by rank as `EnvPipeOptions::extra_activations`, where one
/// microbatch's take so many bytes on each rank; no bytes: not known. Throws InputError when they are needed and not
/// known, and when fewer fit than 1F1B holds.
[[nodiscard]] std::vector<int> extra_activations(const EnvPipeConfig& config, std::span<const double> activation_bytes,
                                                 int ranks, int microbatches);

/// The bytes that the configured profile states of a microbatch's activations by stage; empty: it states none.
[[nodiscard]] std::vector<double> profiled_activation_bytes(const EnvPipeConfig& config);

/// What EnvPipe's profiling finds on the configured profile. Throws InputError when the profile or the blocking power
/// cannot be read, or does not fit the schedule.
[[nodiscard]] planner::EnvPipeFindings findings_on_profile(const EnvPipeConfig& config,
                                                           const schedule::Schedule& schedule);

}  // namespace lowgear::launcher
