#pragma once

#include <span>
#include <string>
#include <string_view>

#include "planning/planner/verifier/verify.h"
#include "planning/steps/step_input.h"

namespace lowgear::steps {

/// How the names of files of expert loads in a recording begin, one of each rank (docs/formats.md).
inline constexpr std::string_view kExpertLoadsFiles = "expert_loads-";

/// Whether a file, named without its folder, is one of a recording's files of expert loads.
[[nodiscard]] bool is_expert_loads_file(std::string_view name);

/// Whether a CSV has the columns of expert loads.
[[nodiscard]] bool is_expert_loads(std::string_view text, const std::string& source);

/// Reads the columns `step,replica,microbatch,layer,expert_tokens`, and where it is there `stage`, of files that the
/// ranks of one job wrote: the tokens that chose each expert of a layer, with blanks between them. A replica's experts
/// are on `ranks` ranks, as many on each, neighbours together (Megatron's and DeepSpeed's expert parallelism). They
/// meet before and after the experts of every layer, so amounts are the sum over a stage's layers of the fullest rank's
/// tokens, and `Lengths::Step::mean_tokens` those of a mean rank. Layers are on the stages that have them in the job;
/// where it states none, or not `stages` of them, layers are divided evenly, in order, and `Lengths::doubts` say so. A
/// step that lacks a layer of a microbatch has a fault. Throws InputError with file, line and column on anything else
/// that is wrong, also where a step has other replicas than the others.
[[nodiscard]] Lengths read_expert_loads(std::span<const planner::PlanFolder::File> files, int ranks, int stages);

}  // namespace lowgear::steps
