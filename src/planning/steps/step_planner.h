#pragma once

#include <span>
#include <vector>

#include "base/core/units.h"
#include "planning/planner/planners/planning_model.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/simulator/replay.h"

namespace lowgear::steps {

/// What gets a clock of its own in a step.
enum class ClocksPer : unsigned char { unit, replica };

struct StepPlannerOptions {
  ClocksPer clocks_per = ClocksPer::unit;
  /// By what share units below full clocks are taken to be slower than predicted.
  double margin = 0;
  double late_by_s = 0;  ///< how long after its unit begins a clock changes
};

/// A replica's share of a step that it may wait in: a step of time T takes the sum of its replicas' effective energies
/// and blocking power x T of every rank.
struct ReplicaFigures {
  double time_s = 0;              ///< end of its last op
  double effective_energy_j = 0;  ///< of its ops: energy less blocking power x time
  double busy_s = 0;              ///< of its ops, over all ranks
  double clock_s_mhz = 0;         ///< of its ops: clock x time, for a mean clock
};

/// Clocks of one replica for one step.
struct ReplicaPlan {
  std::vector<int> clocks_mhz;  ///< by op of the graph
  ReplicaFigures figures;       ///< with predicted times
};

/// What no plan of a replica, mixtures of clocks included, can be below by a deadline; and the flow that proves it.
struct ReplicaBound {
  double effective_energy_j = 0;  ///< of the ops: energy less blocking power x time
  PowerNw flow_value_nw = 0;
  std::vector<PowerNw> op_flow_nw;    ///< by op
  std::vector<PowerNw> edge_flow_nw;  ///< by edge of the graph
};

/// Plans replicas of a pipeline for the lengths of a step. Op i of work w_i takes w_i times the time and the energy of
/// its profile's rows, so that the slopes of its cost stay and only its lengths scale: `FrontierSolver` is exact as for
/// one iteration (docs/planner.md). `busy` is by op the share of its time in which its GPU computes; empty: all. For
/// the rest of it the GPU waits, at its blocking power. Immutable, so that threads may share one.
class StepPlanner {
 public:
  /// The profile has one row a clock, no settings. Arguments but the options must outlive the planner. Throws
  /// InputError when the profile lacks a (stage, kind) of the graph, or with `ClocksPer::replica` has no clock that all
  /// have.
  StepPlanner(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
              std::span<const double> blocking_power_w, const StepPlannerOptions& options);

  /// Work by op from its time at full clocks.
  [[nodiscard]] std::vector<double> work(std::span<const double> full_clock_s) const;
  /// Time of a replica at full clocks.
  [[nodiscard]] double full_time_s(std::span<const double> work) const;
  /// Clocks of least energy that were found for a replica whose last op ends by `deadline_s`; full clocks where none
  /// keep it. `clocks_before_mhz` by rank: those that the step before ends with.
  [[nodiscard]] ReplicaPlan plan(std::span<const double> work, double deadline_s,
                                 std::span<const int> clocks_before_mhz, std::span<const double> busy = {}) const;
  /// The bound of a replica whose last op ends by `deadline_s`, without margin.
  [[nodiscard]] ReplicaBound bound(std::span<const double> work, double deadline_s,
                                   std::span<const double> busy = {}) const;
  /// The problem that the bound solves.
  [[nodiscard]] planner::ProblemInstance instance(std::span<const double> work,
                                                  std::span<const double> busy = {}) const;

  [[nodiscard]] const schedule::PipelineDag& dag() const { return *dag_; }
  [[nodiscard]] std::span<const double> blocking_power_w() const { return blocking_power_w_; }
  [[nodiscard]] const std::vector<int>& full_clocks_mhz() const { return full_clocks_mhz_; }
  /// Figures of a replica that runs at the given clocks, with work as recorded or predicted.
  [[nodiscard]] ReplicaFigures replay(std::span<const double> work, std::span<const int> clocks_mhz,
                                      std::span<const int> clocks_before_mhz, std::span<const double> busy = {}) const;

 private:
  /// Per unit of work, of one (stage, kind).
  struct Cell {
    std::vector<planner::ClockChoice> choices;  ///< fastest first, with the margin
    planner::ConvexCost cost;                   ///< their hull
    planner::ConvexCost cost_without_margin;
    double full_clock_s = 0;
  };

  [[nodiscard]] planner::ProblemInstance instance(std::span<const double> work, std::span<const double> busy,
                                                  planner::ConvexCost Cell::*cost) const;
  [[nodiscard]] planner::PlanningModel model(std::span<const double> work, std::span<const double> busy) const;
  [[nodiscard]] std::vector<int> clocks_per_unit(std::span<const double> work, std::span<const double> busy,
                                                 double deadline_s) const;
  [[nodiscard]] std::vector<int> one_clock(std::span<const double> work, std::span<const double> busy,
                                           double deadline_s) const;

  const schedule::PipelineDag* dag_;
  const profile::StageProfile* profile_;
  std::span<const double> blocking_power_w_;
  StepPlannerOptions options_;
  simulator::TimingGraph timing_;
  std::vector<Cell> cells_;
  std::vector<std::size_t> cell_of_op_;
  std::vector<int> full_clocks_mhz_;    ///< by op
  std::vector<int> common_clocks_mhz_;  ///< that all ops have, highest first
};

}  // namespace lowgear::steps
