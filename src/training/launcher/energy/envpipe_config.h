#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "base/core/formats/yaml.h"
#include "planning/schedule/schedule.h"
#include "rivals/policies/envpipe/envpipe_config.h"
#include "rivals/policies/envpipe/envpipe_reconfiguration.h"
#include "rivals/policies/envpipe/envpipe_sweep.h"

namespace lowgear::launcher {

/// EnvPipe's reconfiguration inside the running job (docs/training.md): `energy.policy: envpipe` and the section
/// `energy.envpipe`.
struct EnvPipeConfig {
  policies::EnvPipeOptions options;  ///< but for the memory, which EnvPipeMemory has
  /// A stage profile, from which the clocks of least energy come; empty: from a sweep in the job's first steps.
  std::optional<std::filesystem::path> profile;
  std::string blocking_power;  ///< with `profile`: watts of a GPU that waits, or the file that has them by stage
  std::optional<std::filesystem::path> log;  ///< receives and decisions of each step
};

/// Members of the section, the first of which is not the policy's alone.
inline constexpr auto kEnvPipeMembers = std::to_array<std::string_view>(
    {"memory_limit", "config", "type", "scheduling", "reconfig", "threshold_scale", "start_clock", "lowest_clock",
     "profile_step", "raise_step", "transfer_ms", "profile", "blocking_power", "log"});

/// Reads the section but for its `memory_limit`. Paths are relative to `folder`. Throws InputError with file, line and
/// column.
[[nodiscard]] EnvPipeConfig read_envpipe(const YamlView& map, const std::filesystem::path& folder);

/// The bytes that the configured profile states of a microbatch's activations by stage; empty: it states none.
[[nodiscard]] std::vector<double> profiled_activation_bytes(const EnvPipeConfig& config);

/// The findings of EnvPipe's profiling on the configured profile. Throws InputError when the profile or the blocking
/// power cannot be read, or does not fit the schedule.
[[nodiscard]] policies::EnvPipeFindings findings_on_profile(const EnvPipeConfig& config,
                                                            const schedule::Schedule& schedule);
/// The same for EnvPipe's own order of `ranks` ranks with one stage each. Throws InputError as findings_on_profile.
[[nodiscard]] policies::EnvPipeFindings order_findings_on_profile(const EnvPipeConfig& config, int ranks,
                                                                  int microbatches);

/// The memory limit of EnvPipe's order, `energy.envpipe.memory_limit`, for the policy and the schedule `envpipe` alike.
struct EnvPipeMemory {
  /// Activations that fit beyond those of 1F1B, by rank; empty: none.
  std::vector<int> extra_activations = {};
  /// Instead of them: bytes that activations may take, as `joint::parse_memory_limit` reads them, divided by what a
  /// microbatch's take when the order is chosen. Empty: it is stated otherwise, or not at all.
  std::string bytes = {};

  [[nodiscard]] bool is_stated() const { return !extra_activations.empty() || !bytes.empty(); }
};

/// Reads the limit of a job of `ranks` pipeline ranks and `microbatches` microbatches. Throws InputError with file,
/// line and column.
[[nodiscard]] EnvPipeMemory read_envpipe_memory(const YamlView& view, int ranks, int microbatches);

/// The activations that fit beyond those of 1F1B, by rank as `EnvPipeOptions::extra_activations`, where one
/// microbatch's take so many bytes on each rank; no bytes: not known. Throws InputError when they are needed and not
/// known, and when fewer fit than 1F1B holds.
[[nodiscard]] std::vector<int> extra_activations(const EnvPipeMemory& memory, std::span<const double> activation_bytes,
                                                 int ranks, int microbatches);

/// The policy's state in a checkpoint.
struct EnvPipeSaved {
  Json settings;                    ///< envpipe_settings_json; of others it cannot be continued
  bool settled = false;             ///< the reconfiguration has ended
  std::vector<int> early_forwards;  ///< of EnvPipe's own order, by rank; empty: the order of the schedule
  policies::EnvPipeState state;
  friend bool operator==(const EnvPipeSaved&, const EnvPipeSaved&) = default;
};

/// The settings that decisions depend on, with the clocks that there are, highest first.
[[nodiscard]] Json envpipe_settings_json(const policies::EnvPipeOptions& options, const EnvPipeMemory& memory,
                                         const std::vector<int>& clocks_mhz);

[[nodiscard]] Json to_json(const EnvPipeSaved& saved);
/// Throws InputError with the JSON path.
[[nodiscard]] EnvPipeSaved read_envpipe_saved(const JsonView& view);

/// Power of a GPU that waits, by stage, from a setting that is watts or the name of a file with watts by stage.
/// `setting` names it in errors. Throws InputError when it is neither, or as `profile::read_blocking_power`.
[[nodiscard]] std::vector<double> read_blocking_power(std::string_view setting, const std::string& given, int stages);

}  // namespace lowgear::launcher
