#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "planning/api/comparison.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/simulator/cluster.h"

namespace lowgear::api {

/// An order of a joint run, which has a folder of its own (`orders/NN`).
struct JointOrder {
  std::string name;  ///< as its plans name their schedule
  int stages_per_rank = 1;
  std::vector<int> peak_activations;  ///< by rank, in stage-microbatches
};

/// How the layers were divided over the ranks, where that was free.
struct PartitionRun {
  std::vector<int> given;   ///< layers by rank as the profile was measured
  std::vector<int> chosen;  ///< as the run's profile has them
  int tried = 0;            ///< partitions whose bound was computed
  double deadline_s = 0;    ///< that the partition was chosen for
  /// Figures of the given partition's own joint plan for the shown plan's deadline, replayed; empty: it cannot keep it.
  std::optional<simulator::PipelineFigures> given_plan = {};
};

/// One or two sentences: the gain of the choice over the given partition, and the claims that are not proven.
[[nodiscard]] std::string describe(const PartitionRun& partition, const simulator::PipelineFigures& shown_plan);

/// What `run.json` of a run whose order was free states in addition.
struct JointRun {
  std::string memory_limit;             ///< as given: `1f1b`, or microbatches on every rank
  std::string reference;                ///< the order of the baseline
  simulator::PipelineFigures baseline;  ///< everything at its highest clock in that order, replayed; of
                                        ///< the given partition
  std::vector<JointOrder> orders;       ///< by number
  std::optional<PartitionRun> partition = {};
};

/// A point of the joint frontier.
struct JointPoint {
  double time_s = 0;
  double energy_j = 0;
  int order = 0;  ///< number of the order that has it
};

/// The joint frontier: `time_s,energy_j,order`.
[[nodiscard]] std::string write_joint_frontier(std::span<const JointPoint> points);
/// Throws InputError at the cell that is wrong, and when there is no row.
[[nodiscard]] std::vector<JointPoint> read_joint_frontier(std::string_view text, const std::string& source);

/// The lower envelope of the orders' frontiers (each fastest first, convex). Where the order changes, both have a point
/// at that time, so that lines between neighbours are within one order.
[[nodiscard]] std::vector<JointPoint> joint_frontier(
    std::span<const std::vector<simulator::PipelineFigures>> frontiers);

/// What `run.json` of a plan of changed work states in addition.
struct ChangedLayers {
  std::vector<int> counts;  ///< by rank, or by stage where the plan's order was kept and a rank has several
  bool alike = true;        ///< all layers changed alike: a stage's costs still divide evenly by its layers
};

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
  double late_by_s = 0;                         ///< how long after its unit begins a clock changes; 0: in time
  double clock_lead_s = 0;                      ///< of all plans (`plan::Plan`)
  std::optional<double> asked_deadline_s = {};  ///< where one plan was asked for
  std::vector<std::string> conditions = {};     ///< beside profile and order: power cap, slow ranks
  std::vector<ComparisonRow> policies;          ///< *replayed*, for the report
  std::vector<std::string> warnings;
  std::optional<JointRun> joint = {};  ///< where the order was free
  std::optional<ChangedLayers> layers = {};
};

/// `per_op`, `per_stage_kind`.
[[nodiscard]] std::string_view name(planner::PlanGranularity granularity);

/// The member `partition` of `joint`.
[[nodiscard]] Json to_json(const PartitionRun& partition);

[[nodiscard]] std::string write_run(const RunFile& run);
/// Throws InputError with the JSON path on anything missing, of the wrong kind or out of range.
[[nodiscard]] RunFile read_run(std::string_view text, const std::string& source);

}  // namespace lowgear::api
