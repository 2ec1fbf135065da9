#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/cli/arguments/envpipe_arguments.h"
#include "app/cli/arguments/joint_arguments.h"
#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/arguments/planner_arguments.h"
#include "app/cli/plan/plan_folder.h"
#include "app/cli/terminal/console.h"
#include "base/core/files/file.h"
#include "base/core/progress.h"
#include "planning/api/joint_plan.h"
#include "planning/api/plan_pipeline.h"
#include "planning/api/plan_request.h"
#include "planning/api/run_file.h"
#include "planning/plan/plan.h"
#include "planning/planner/verifier/verify.h"
#include "planning/profile/profile_file.h"
#include "report/report/report_data.h"
#include "rivals/formats/perseus_plan.h"

namespace lowgear::cli {

/// Columns of a plan's profile: the blocking power that the plans were made with, and what was stated of the same
/// stages, so that plans of the folder's profile are the same.
[[nodiscard]] profile::StageColumns stage_columns(const schedule::PipelineDag& dag, std::span<const double> by_rank_w,
                                                  const profile::StageColumns& stated = {});

/// Arguments of `lowgear plan`.
struct PlanArguments {
  PipelineArguments pipeline;
  PlannerArguments planner;
  api::Deadlines deadlines;
  api::PlanRequest request;
  std::string out = "plan";
  PerseusArguments perseus;
  EnvPipeArguments envpipe;
  std::string envpipe_steps;                              ///< file for the steps of its reconfiguration; empty: none
  std::optional<formats::PerseusDialect> perseus_format;  ///< none: no files for Perseus or Zeus
  std::optional<plan::PlanSampling> perseus_plans;        ///< files of the frontier of `perseus`; none: of `plans`
  std::optional<plan::PlanSampling> perseus_plots;        ///< plans of that frontier to draw; none: no page
  std::string command;                                    ///< the command line, for the report
  std::optional<std::string> memory_limit;                ///< of a free order or of `envpipe`; empty: not given
  std::optional<std::string> layers;                      ///< of a free order whose layers may move; empty: they stay
  std::optional<api::ChangedLayers> changed_layers = {};  ///< of a plan of changed work
};

/// The options of the planner that the arguments state. Throws InputError when they contradict each other.
[[nodiscard]] api::PlanOptions plan_options(const PlanArguments& arguments);

/// Results of planning a given order, for the summary.
struct PlanSummary {
  api::PlanResult result;
  std::optional<planner::VerifyReport> verified;  ///< empty where verifying takes long
};

/// Plans, and writes every file into `folder`, which the caller commits; the report shows the `change` that the plan
/// answers. Throws InputError, and Error when the plans do not pass verification.
[[nodiscard]] PlanSummary make_plans(const PlanArguments& arguments, PipelineInput input, StagedDirectory& folder,
                                     Progress& progress, std::optional<report::ChangedWork> change = {});

/// Results of planning with a free order, for the summary.
struct JointPlanSummary {
  api::JointPlanResult result;
  std::optional<planner::VerifyReport> verified;  ///< empty where verifying takes long
};

/// Plans orders and clocks together, and writes every file into `folder`, which the caller commits. Throws InputError,
/// and Error when the plans do not pass verification.
[[nodiscard]] JointPlanSummary make_joint_plans(const PlanArguments& arguments, JointInput input,
                                                StagedDirectory& folder, Progress& progress);

/// Warns of the findings of a result and notes its other warnings, but for those that were said before.
void say_warnings(const std::vector<std::string>& warnings, const std::vector<std::string>& findings,
                  const std::vector<std::string>& said, Console& console);

}  // namespace lowgear::cli
