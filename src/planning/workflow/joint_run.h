#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/simulator/cluster.h"

namespace lowgear::workflow {

/// An order of a joint run, which has a folder of its own (`orders/NN`).
struct JointOrder {
  std::string name;  ///< as its plans name their schedule
  int stages_per_rank = 1;
  std::vector<int> peak_activations;  ///< by rank, in stage-microbatches
};

/// What `run.json` of a run whose order was free states in addition.
struct JointRun {
  std::string memory_limit;             ///< as given: `1f1b`, or microbatches on every rank
  std::string reference;                ///< the order of the baseline
  simulator::PipelineFigures baseline;  ///< everything at its highest clock in that order, replayed
  std::vector<JointOrder> orders;       ///< by number
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

}  // namespace lowgear::workflow
