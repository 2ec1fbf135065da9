#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/cli/arguments/deadlines.h"
#include "app/cli/arguments/price_arguments.h"
#include "base/core/formats/json.h"
#include "base/core/progress.h"
#include "estimating/estimator/iteration/iteration_estimate.h"
#include "estimating/estimator/iteration/planned_job.h"
#include "estimating/estimator/job/training_job.h"

namespace lowgear::cli {

/// What `lowgear estimate --plan` is asked for.
struct EstimatePlanArguments {
  workflow::Deadlines deadline;  ///< `plans` is not used
  std::string policy;            ///< empty: Lowgear's own planner
  PriceArguments prices;
};

/// `--deadline`, `--slowdown`, `--straggler`, `--policy`, `--gpu-hour`, `--kwh`, `--co2`; all go with `--plan`.
void add_estimate_plan_options(CLI::App& app, EstimatePlanArguments& arguments, CLI::Option* plan);

/// One way to clock the job.
struct ClockedJob {
  std::string name;   ///< `full clocks`, `no later`, ...
  std::string basis;  ///< `estimated`, `planned`, `replayed`
  estimator::JobFigures figures;
};

/// Effect of clocks on a job, only from estimates. One iteration of all GPUs.
struct PlannedEstimate {
  std::vector<ClockedJob> rows;                 ///< full clocks first
  std::vector<estimator::JobFigures> frontier;  ///< vertices, fastest first
  std::string note;                             ///< of the policy; may be empty
};

/// Throws InputError when the deadline cannot be met, or where there is no such policy.
[[nodiscard]] PlannedEstimate plan_estimate(const estimator::TrainingJob& job,
                                            const estimator::IterationEstimate& estimate,
                                            const EstimatePlanArguments& arguments, Progress& progress);

/// The command that plans on an emitted profile.
[[nodiscard]] std::string plan_command(const estimator::TrainingJob& job, const std::string& profile);

[[nodiscard]] std::string planned_text(const PlannedEstimate& planned, int gpus, const PriceArguments& prices);
[[nodiscard]] Json planned_json(const PlannedEstimate& planned, int gpus, const PriceArguments& prices);

}  // namespace lowgear::cli
