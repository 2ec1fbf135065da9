#pragma once

#include <optional>
#include <string>

#include "app/cli/arguments/envpipe_arguments.h"
#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/arguments/planner_arguments.h"
#include "app/cli/runs/plan_output.h"
#include "base/core/files/file.h"
#include "base/core/progress.h"
#include "planning/plan/perseus_plan.h"
#include "planning/plan/plan_sampling.h"
#include "planning/workflow/deadlines.h"
#include "planning/workflow/plan_pipeline.h"

namespace lowgear::cli {

/// What `lowgear plan` is asked for.
struct PlanArguments {
  PipelineArguments pipeline;
  PlannerArguments planner;
  workflow::Deadlines deadlines;
  workflow::PlanRequest request;
  std::string out;
  PerseusArguments perseus;
  EnvPipeArguments envpipe;
  std::string envpipe_steps;                           ///< file for the steps of its reconfiguration; empty: none
  std::optional<plan::PerseusDialect> perseus_format;  ///< none: no files for Perseus or Zeus
  std::optional<plan::PlanSampling> perseus_plans;     ///< files of the frontier of `perseus`; none: of `plans`
  std::optional<plan::PlanSampling> perseus_plots;     ///< plans of that frontier to draw; none: no page
  std::string command;                                 ///< the command line, for the report
  std::optional<std::string> memory_limit;             ///< of a free order or of `envpipe`; empty: not given
  std::optional<std::string> layers;                   ///< of a free order whose layers may move; empty: they stay
};

/// How to plan, as the arguments have it. Throws InputError when they contradict each other.
[[nodiscard]] workflow::PlanOptions plan_options(const PlanArguments& arguments);

/// What it has made, for the summary.
struct PlanSummary {
  workflow::PlanResult result;
  std::optional<planner::VerifyReport> verified;  ///< absent where that takes long
};

/// Plans, and writes every file into `folder`, which the caller commits. Throws InputError, and Error when the plans do
/// not pass verification.
[[nodiscard]] PlanSummary make_plans(const PlanArguments& arguments, PipelineInput input, StagedDirectory& folder,
                                     Progress& progress);

}  // namespace lowgear::cli
