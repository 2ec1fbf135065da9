#pragma once

#include <string>
#include <string_view>

#include "base/core/formats/json.h"
#include "planning/planner/policies/envpipe/envpipe_options.h"
#include "planning/planner/policies/envpipe/envpipe_reconfiguration.h"

namespace lowgear::planner {

/// The settings that the member `envpipe` of a DeepSpeed configuration states, as EnvPipe and KISTI's EnvPipe read it:
/// type, scheduling, reconfig, gpu (as set_envpipe_gpu) and reconfigure_threshold_scale. Throws InputError naming the member,
/// also for any other one.
[[nodiscard]] EnvPipeOptions read_envpipe_config(std::string_view text, const std::string& source);

/// v100, rtx3090, a100, a6000: the first and last clock of EnvPipe's list. Another GPU is unlisted: require_valid then
/// demands its clocks.
void set_envpipe_gpu(const std::string& gpu, EnvPipeOptions& options);

/// A word of one of the lists in envpipe_names.h as its value. Throws InputError when it is none.
[[nodiscard]] EnvPipeOptions::Type envpipe_type(std::string_view word);
[[nodiscard]] EnvPipeOptions::Reconfiguration envpipe_reconfiguration(std::string_view word);

/// The state of a reconfiguration, as it is stored.
[[nodiscard]] Json to_json(const EnvPipeState& state);
/// Throws InputError with the JSON path.
[[nodiscard]] EnvPipeState read_envpipe_state(const JsonView& view);

}  // namespace lowgear::planner
