#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/cli/arguments/deadlines.h"
#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/arguments/planner_arguments.h"
#include "app/cli/runs/comparison.h"
#include "app/cli/runs/plan_output.h"
#include "base/core/files/file.h"
#include "base/core/progress.h"
#include "planning/plan/perseus_plan.h"

namespace lowgear {

/// What `lowgear plan` is asked for.
struct PlanArguments {
  PipelineArguments pipeline;
  PlannerArguments planner;
  DeadlineArguments deadlines;
  std::string policy = kLowgearPolicy;
  std::string out;
  double perseus_unit_s = kPerseusUnitS;
  std::optional<PerseusDialect> perseus_format;  ///< none: no files for Perseus or Zeus
  std::string command;                           ///< the command line, for the report
};

/// A plan that was made as if clocks changed at once, replayed with changes that come late.
struct LateReplay {
  double switch_latency_s = 0;
  ReportPoint plan;
  ReportPoint baseline;
};

/// What it has made, for the summary.
struct PlanSummary {
  RunFile run;
  std::vector<ReportPoint> frontier;  ///< proven
  double epsilon = 0;                 ///< largest relative distance between it and its bound
  ReportPoint baseline;               ///< everything at its highest clock, replayed
  std::vector<ReportPlan> plans;
  int shown_plan = 0;              ///< number of the plan that the report shows
  std::optional<LateReplay> late;  ///< of the shown plan, where the switch latency is not known
  std::optional<VerifyReport> verified;
};

/// Plans, and writes every file into `folder`, which the caller commits. Remarks for the user go to the summary's
/// `run.warnings`. Throws InputError, and Error when the plans do not pass verification.
[[nodiscard]] PlanSummary make_plans(const PlanArguments& arguments, PipelineInput input, StagedDirectory& folder,
                                     Progress& progress);

}  // namespace lowgear
