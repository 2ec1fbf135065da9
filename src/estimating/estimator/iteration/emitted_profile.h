#pragma once

#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/iteration/iteration_estimate.h"
#include "estimating/estimator/job/training_job.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::estimator {

/// Clocks that a profile of a GPU is made for: every one that it can be locked to, highest first, down to a third of
/// the highest. Lower ones take more time and more energy on every GPU measured so far.
[[nodiscard]] std::vector<int> profiled_clocks_mhz(const ClockSteps& clocks);

/// A stage profile for `lowgear plan` from an estimate: time and energy of forward and backward of every virtual stage
/// on one of its tp x cp GPUs at every clock of `profiled_clocks_mhz` (WorkEnergy), and of input and weight gradient
/// where the estimate tells them apart. *Estimated*, not measured.
[[nodiscard]] profile::StageProfile emitted_profile(const GpuModel& gpu, const IterationEstimate& estimate);

}  // namespace lowgear::estimator
