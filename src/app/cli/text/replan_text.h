#pragma once

#include <string>

#include "base/core/formats/json.h"
#include "planning/workflow/work_replan.h"

namespace lowgear::cli {

/// A partition in the notation of training configurations: `custom:0,12,24`.
[[nodiscard]] std::string partition_text(const profile::Partition& partition);

/// What a change of a job's work is worth, for people and for programs.
[[nodiscard]] std::string replan_text(const workflow::WorkReplan& replan);
[[nodiscard]] Json replan_json(const workflow::WorkReplan& replan);

}  // namespace lowgear::cli
