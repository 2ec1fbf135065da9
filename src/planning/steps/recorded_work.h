#pragma once

#include <span>
#include <string>

#include "planning/profile/recorded_profile.h"
#include "planning/profile/recording.h"
#include "planning/steps/step_input.h"
#include "planning/steps/work_model.h"

namespace lowgear::steps {

/// Leaves out the units of steps whose lengths are not stated: they count as settling. A warning that counts the steps;
/// empty: all are stated. Throws InputError where none is.
[[nodiscard]] std::string leave_out_unstated(std::span<profile::Recording> recordings, const Lengths& lengths);

/// Fits times by length on the units of a job's recordings, at whatever clocks, and states the work of each unit
/// (`profile::RecordedUnit::work`): its time by the model over the mean of its (stage, kind). Coefficients and the
/// factor by which each lower clock of a (stage, kind) is slower are found in turns; a prediction is of the highest
/// clock. Where all microbatches have the same number of tokens, the part that does not depend on documents is linear
/// alone: a constant cannot be told from it. The ranks of a stage are numbered as those of `lowgear train`: along
/// tensor parallelism, then replicas. Of `options` the skipped iterations and the GPU's own clock count, as for the
/// profile: units of iterations in which clocks settled, of those that are skipped, and at an unknown clock are not
/// fitted. Throws InputError where a rank is missing, a unit's step or microbatch has no lengths, or nothing is left to
/// fit.
[[nodiscard]] WorkModel fit_recorded_work(std::span<profile::Recording> recordings, const Lengths& lengths,
                                          const profile::ProfilingOptions& options);

}  // namespace lowgear::steps
