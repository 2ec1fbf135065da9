#pragma once

#include <span>
#include <string>
#include <vector>

#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/schedule.h"
#include "planning/steps/step_planner.h"
#include "planning/steps/work_model.h"

namespace lowgear::steps {

/// A pipeline whose steps are planned one by one as their lengths become known.
struct StepPipeline {
  schedule::Schedule schedule;
  profile::StageProfile profile;         ///< one row a clock
  std::vector<double> blocking_power_w;  ///< by rank
  WorkModel work;
  ClocksPer clocks_per = ClocksPer::unit;
};

/// The clocks of one replica for one step.
struct NextStep {
  std::string fault = {};          ///< why it runs at full clocks; empty: it has clocks
  std::vector<int> clocks_mhz;     ///< by op of the graph
  double time_s = 0;               ///< predicted, of the longest replica at full clocks: the deadline of all
  double replica_full_time_s = 0;  ///< predicted, of this one at full clocks
  double replica_time_s = 0;       ///< and of its plan
};

/// Plans a replica's part of each step. Every rank that asks with the same amounts has the same deadline without a word
/// to others, and all ranks of a replica the same clocks. Units below full clocks count as slower by the error of the
/// model. Immutable.
class NextStepPlanner {
 public:
  /// Throws InputError as `build_dag` and StepPlanner, and when the model lacks a (stage, kind) of the schedule.
  explicit NextStepPlanner(StepPipeline pipeline);
  NextStepPlanner(const NextStepPlanner&) = delete;
  NextStepPlanner& operator=(const NextStepPlanner&) = delete;
  ~NextStepPlanner() = default;

  /// `amounts` of all replicas' microbatches, by replica, then microbatch. A fault where the model was fitted on less
  /// or predicts no time for a unit.
  [[nodiscard]] NextStep plan(std::span<const Amounts> amounts, int replica) const;
  [[nodiscard]] const schedule::PipelineDag& dag() const { return dag_; }
  /// Highest clock of a rank's units in the profile: no unit runs faster in a plan.
  [[nodiscard]] int full_clock_mhz(int rank) const;

 private:
  [[nodiscard]] std::vector<double> work_of(std::span<const Amounts> amounts, int replica) const;

  StepPipeline pipeline_;
  schedule::PipelineDag dag_;
  StepPlanner planner_;
};

}  // namespace lowgear::steps
