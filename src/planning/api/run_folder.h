#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/api/run_file.h"
#include "planning/plan/plan.h"
#include "planning/planner/verifier/joint_folder.h"
#include "planning/planner/verifier/verify.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/schedule.h"
#include "planning/simulator/cluster.h"

namespace lowgear::api {

/// A plan without its ops: a row of `plans.csv`, and of every list of plans. *Planned* figures.
struct PlanFigures {
  int number = 0;  ///< as in `plans.csv` and `plans/NNNNN.json`
  double deadline_s = 0;
  double time_s = 0;
  double energy_j = 0;
  std::optional<double> lower_bound_j = {};  ///< no plan of this time can use less; absent when not computed
  int switches = 0;                          ///< clock changes per iteration, all ranks
  std::optional<int> order = {};             ///< number of its order, where the order was free
  std::optional<double> joint_bound_j = {};  ///< no plan of this time in any order can use less, where it was free
};

/// `frontier.csv`: `time_s,energy_j`, as short as numbers can be to be read back unchanged.
[[nodiscard]] std::string write_frontier_table(std::span<const simulator::PipelineFigures> points);
/// Throws InputError at the cell that is wrong, and when there is no row.
[[nodiscard]] std::vector<simulator::PipelineFigures> read_frontier_table(std::string_view text,
                                                                          const std::string& source);

/// A plan's row of `plans.csv`.
[[nodiscard]] PlanFigures plan_row(int number, const plan::Plan& plan);

/// `plans.csv`: `plan,deadline_s,time_s,energy_j,lower_bound_j,gap_pct,switches`, and `order` and `joint_bound_j` where
/// the order was free; bound and gap are empty where there is none.
[[nodiscard]] std::string write_plans_table(std::span<const PlanFigures> plans);
/// Throws InputError at the cell that is wrong, and when there is no row.
[[nodiscard]] std::vector<PlanFigures> read_plans_table(std::string_view text, const std::string& source);

/// Whether a plan saves energy without finishing later: it takes no longer than the iteration with everything at its
/// highest clock. Equal times may differ in the last digits, as they are sums of doubles.
[[nodiscard]] bool keeps_time(double time_s, double baseline_time_s);

/// Number of the plan to show: the slowest that keeps the baseline's time, or else the fastest. `plans` fastest first
/// and not empty.
[[nodiscard]] int plan_to_show(std::span<const PlanFigures> plans, double baseline_time_s);

/// The contents of an output folder of `lowgear plan`, from which the report of a run is made.
struct RunContents {
  RunFile run;
  profile::StageProfile profile;
  schedule::Schedule schedule;
  std::vector<simulator::PipelineFigures> frontier;     ///< the one that is proven, or the joint one
  std::vector<int> order_of_point = {};                 ///< by point of a joint frontier: number of its order
  std::vector<simulator::PipelineFigures> lower_bound;  ///< empty: the frontier itself. Of all orders, if joint
  std::vector<PlanFigures> plans;
  int chosen_plan = 0;  ///< number of `chosen`
  plan::Plan chosen;
  std::optional<planner::VerifyReport> verified = {};  ///< absent when nothing was verified
};

/// The contents of a folder's texts, with the plan chosen that `plan_to_show` names; `lower_bound` where the folder has
/// that table. Throws InputError when something is missing, cannot be read or contradicts something else.
[[nodiscard]] RunContents read_run_contents(const planner::PlanFolder& files,
                                            const std::optional<planner::PlanFolder::File>& lower_bound);

/// The same of a run with a free order: profile and schedule are those of the chosen plan.
[[nodiscard]] RunContents read_joint_contents(const planner::JointFolder& files);

}  // namespace lowgear::api
