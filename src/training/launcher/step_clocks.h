#pragma once

#include <memory>

#include "planning/steps/next_step.h"
#include "training/launcher/config/train_config.h"

namespace lowgear::launcher {

/// What `energy.steps` needs in a running job.
struct StepClocks {
  std::unique_ptr<steps::NextStepPlanner> planner;
  double clock_lead_s = 0;  ///< how long before its unit a clock is requested
  double fit_error = 0;     ///< relative, of times by length
};

/// From the files that the configuration names. Throws InputError when they are not of this job's schedule, or the
/// profile does not state what GPUs draw while they wait.
[[nodiscard]] StepClocks read_step_clocks(const TrainConfig& config);

}  // namespace lowgear::launcher
