#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planning/profile/stage_profile.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/schedule.h"

namespace lowgear::api {

/// Shares of a measured op that stand for an unmeasured one; empty: not stated.
struct FittingShares {
  std::optional<double> backward_split = {};  ///< share of a backward that its input gradient takes
  std::optional<double> recomputation = {};   ///< a recomputation's time and energy as a share of its forward's
};

/// `profile` with the stages and kinds of operation that the schedule runs: cut into virtual stages, backwards split
/// and recomputations added where it was not measured so. Throws InputError that names the option to state when that
/// cannot be done.
[[nodiscard]] profile::StageProfile fit_profile(profile::StageProfile profile, const schedule::Schedule& schedule,
                                                const FittingShares& shares);

/// What `fit_profile` assumes of the stages of a schedule that has several of them on a rank, where the profile has
/// one; empty for all others.
[[nodiscard]] std::optional<std::string> divided_stages_note(int profiled_stages, const schedule::Schedule& schedule);

/// `profile` with each backward divided, `share` of it to the input gradient. Throws InputError where a stage is split
/// already.
[[nodiscard]] profile::StageProfile split_backward(const profile::StageProfile& profile, double share);

/// The figures that the schedule `envpipe` depends on, by stage: the forward at the clock at which it uses least
/// energy, waiting included, and the backward at the highest. `blocking_power_w` by stage, empty where it is not known.
[[nodiscard]] std::vector<schedule::EnvPipeStage> envpipe_stages(const profile::StageProfile& profile,
                                                                 std::span<const double> blocking_power_w,
                                                                 std::optional<int> extra_activations);

/// Bytes of memory that planning `ranks` x `microbatches` x `chunks` takes, rounded up.
[[nodiscard]] double planning_memory_bytes(int ranks, int microbatches, int chunks);

/// Throws InputError with the estimate when it exceeds `available_bytes`. Does nothing where that is not known.
void require_planning_memory(int ranks, int microbatches, int chunks, std::optional<std::uint64_t> available_bytes);

}  // namespace lowgear::api
