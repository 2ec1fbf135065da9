#pragma once

#include <string>

#include "planning/planner/policies/envpipe/envpipe_start.h"
#include "training/launcher/config/train_config.h"

/// The order of the schedule `envpipe`: how many forwards each rank runs early, within the memory that the job has.
namespace lowgear::launcher {

/// By what was found of the stages, as far as `energy.envpipe.memory_limit` admits; where it is not stated, or in
/// bytes, which cannot be divided before a microbatch's activations are measured, as far as what 1F1B holds. The note
/// says where that is less than the rule asks for, and which setting changes it.
[[nodiscard]] planner::EnvPipeOrder order_in_memory(const EnvPipeMemory& memory, int microbatches,
                                                    const planner::EnvPipeFindings& found);

/// That with which the job starts: the early forwards that the configuration states, or by the times of the profile
/// that the policy `envpipe` has. With neither: of stages that are all alike, whose backward takes twice the time of a
/// forward. Throws InputError where virtual stages are configured, which it has none of, and as findings_on_profile.
[[nodiscard]] planner::EnvPipeOrder starting_order(const TrainConfig& config);
/// What to tell people of it; empty: nothing, as the schedule is another one, or its order is as its rule asks.
[[nodiscard]] std::string starting_note(const TrainConfig& config);

}  // namespace lowgear::launcher
