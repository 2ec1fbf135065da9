#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planning/profile/stage_profile.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/schedule.h"

namespace lowgear::workflow {

/// What an op that was not measured takes of one that was; empty: not stated.
struct FittingShares {
  std::optional<double> backward_split = {};  ///< an input gradient of a backward
  std::optional<double> recomputation = {};   ///< a recomputation of a forward
};

/// `profile` with the stages and kinds of operation that the schedule runs: cut into virtual stages, backwards split
/// and recomputations added where it was not measured so. Throws InputError, saying what to state, when that cannot
/// be done.
[[nodiscard]] profile::StageProfile fit_profile(profile::StageProfile profile, const schedule::Schedule& schedule,
                                                const FittingShares& shares);

/// `profile` with each backward divided, `share` of it to the input gradient. Throws InputError where a stage is split
/// already.
[[nodiscard]] profile::StageProfile split_backward(const profile::StageProfile& profile, double share);

/// What the schedule `envpipe` depends on, by stage: the forward at the clock at which it uses least energy, waiting
/// included, and the backward at the highest. `blocking_power_w` by stage, empty where it is not known.
[[nodiscard]] std::vector<schedule::EnvPipeStage> envpipe_stages(const profile::StageProfile& profile,
                                                                 std::span<const double> blocking_power_w,
                                                                 std::optional<int> extra_activations);

}  // namespace lowgear::workflow
