#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/workflow/comparison.h"
#include "planning/workflow/joint_run.h"

namespace lowgear::workflow {

/// `run.json` (`lowgear.run/1`, docs/formats.md): what an output folder was made from and how, apart from the profile,
/// the schedule and the plans, which have files of their own.
struct RunFile {
  std::string version;
  std::string command;  ///< the command line
  std::string policy;
  std::string profile;  ///< as given
  int stages = 0;       ///< ranks
  int microbatches = 0;
  std::string schedule;
  std::vector<double> blocking_power_w;                             ///< by rank
  planner::FrontierMethod method = planner::FrontierMethod::exact;  ///< never `automatic`
  double epsilon = 0;                                               ///< asked of the sandwich
  planner::PlanGranularity granularity = planner::PlanGranularity::per_op;
  double switch_latency_s = 0;
  std::optional<double> asked_deadline_s = {};  ///< where one plan was asked for
  std::vector<ComparisonRow> policies;          ///< *replayed*, for the report
  std::vector<std::string> warnings;
  std::optional<JointRun> joint = {};  ///< where the order was free
};

/// `per_op`, `per_stage_kind`.
[[nodiscard]] std::string_view name(planner::PlanGranularity granularity);

/// The member `partition` of `joint`.
[[nodiscard]] Json to_json(const PartitionRun& partition);

[[nodiscard]] std::string write_run(const RunFile& run);
/// Throws InputError with the JSON path on anything missing, of the wrong kind or out of range.
[[nodiscard]] RunFile read_run(std::string_view text, const std::string& source);

}  // namespace lowgear::workflow
