#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planning/schedule/dag.h"

namespace lowgear::plan {

/// What Perseus' server leaves as `N.sched.json`: for every rank the clock or power limit of each instruction that its
/// client registered, those that send, receive, load and sum included. The file does not say which they are.
struct PowerStates {
  std::vector<std::vector<int>> ranks;  ///< by rank
};

/// Reads `[{"rank": 0, "power_states": [1410, ...]}, ...]`. Throws InputError for ranks that are absent or come twice,
/// states that are no clocks or watts, and more than kMaxStates of them.
[[nodiscard]] PowerStates read_power_states(std::string_view text, const std::string& source);

/// Whether a text is of that form rather than a plan of clocks: it begins a list of objects.
[[nodiscard]] bool is_power_states(std::string_view text);

/// Of the instructions that Merak gives a stage in 1F1B with merged messages (`MergeP2PTrainSchedule`), in their order:
/// whether each is a forward or a backward.
[[nodiscard]] std::vector<bool> merak_instructions(int stage, int stages, int microbatches);

/// The clock of every op of `dag`, in its order, if the ranks ran Merak's 1F1B: an instruction that computes nothing
/// has the state of the computation before it, or of the first, and every rank of a stage the same states. Ranks of
/// several pipelines or of tensor parallelism are numbered with the stage outermost or innermost. Throws InputError
/// where that does not hold, or `dag` is not 1F1B.
[[nodiscard]] std::vector<int> clocks_for(const PowerStates& states, const schedule::PipelineDag& dag);

}  // namespace lowgear::plan
