#pragma once

#include <vector>

#include "base/core/formats/json.h"
#include "planning/planner/policies/envpipe/envpipe_options.h"
#include "planning/planner/policies/envpipe/envpipe_reconfiguration.h"
#include "training/launcher/energy/envpipe_memory.h"

namespace lowgear::launcher {

/// What a checkpoint has of the policy `envpipe`.
struct EnvPipeSaved {
  Json settings;                    ///< envpipe_settings_json; of others it cannot be continued
  bool settled = false;             ///< the reconfiguration has ended
  std::vector<int> early_forwards;  ///< of EnvPipe's own order, by rank; empty: the order of the schedule
  planner::EnvPipeState state;
  friend bool operator==(const EnvPipeSaved&, const EnvPipeSaved&) = default;
};

/// The settings that decisions depend on, with the clocks that there are, highest first.
[[nodiscard]] Json envpipe_settings_json(const planner::EnvPipeOptions& options, const EnvPipeMemory& memory,
                                         const std::vector<int>& clocks_mhz);

[[nodiscard]] Json to_json(const EnvPipeSaved& saved);
/// Throws InputError with the JSON path.
[[nodiscard]] EnvPipeSaved read_envpipe_saved(const JsonView& view);

}  // namespace lowgear::launcher
