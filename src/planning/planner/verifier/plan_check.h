#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planning/plan/plan.h"
#include "planning/planner/verifier/pipeline.h"
#include "planning/planner/verifier/proven_frontier.h"
#include "planning/planner/verifier/verify.h"
#include "planning/profile/stage_profile.h"
#include "planning/simulator/replay.h"

namespace lowgear::planner::verifier {

/// What `lowgear plan` was asked for, as its run.json states (`lowgear.run/1`, docs/formats.md).
struct RunSettings {
  std::string policy;
  std::string schedule;
  int ranks = 0;
  int microbatches = 0;
  std::vector<double> blocking_power_w;  ///< by rank
  bool exact = true;                     ///< the frontier is exact; otherwise between bounds at most epsilon apart
  double epsilon = 0;                    ///< relative; 0 when exact
  bool per_stage_kind = false;           ///< one clock for all ops of a (stage, kind)
  double late_by_s = 0;                  ///< how long after its unit begins a clock changes; 0: in time
  std::optional<double> clock_lead_s;    ///< of all plans; empty: not stated
  std::optional<double> asked_deadline_s = {};  ///< where one plan was asked for
};

/// Throws InputError with the JSON path of a member that is missing, of the wrong kind or out of range.
[[nodiscard]] RunSettings read_run_settings(std::string_view text, const std::string& source);

/// A row of plans.csv.
struct PlanRow {
  long long number = 0;
  double deadline_s = 0;
  double time_s = 0;
  double energy_j = 0;
  std::optional<double> lower_bound_j;
  std::optional<double> gap_pct;
  long long switches = 0;
};

/// Throws InputError with line and column of what cannot be read.
[[nodiscard]] std::vector<PlanRow> read_plan_rows(const PlanFolder::File& table_file);

/// Data against which all plans of a folder are checked. `proven` is null when no frontier is: bounds are then not
/// compared.
struct PlanBasis {
  const RunSettings& run;
  const Pipeline& pipeline;
  const profile::StageProfile& profile;
  const ProvenFrontier* proven = nullptr;
};

/// Replays one plan and compares all that it and its row of the table state with what comes out. Throws InputError when
/// the file cannot be read.
void check_plan(const PlanBasis& basis, const PlanFolder::File& file, const PlanRow& row, Findings& findings);

}  // namespace lowgear::planner::verifier
