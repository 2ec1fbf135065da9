#pragma once

#include <span>
#include <vector>

#include "base/core/units.h"
#include "planning/schedule/dag.h"

namespace lowgear::simulator {

/// The precedence of a PipelineDag laid out for finding start times again and again: each evaluation reads every
/// dependency once, in memory order, and allocates nothing. Immutable, so that threads may share one.
class TimingGraph {
 public:
  explicit TimingGraph(const schedule::PipelineDag& dag);

  [[nodiscard]] std::size_t op_count() const { return ops_.size(); }

  /// Earliest start of every op when each starts as soon as all it depends on have finished. Writes `start` and returns
  /// the makespan, the latest end. `duration` and `start` by op of the graph, both of size op_count() and not the same
  /// memory; durations are not negative. Seconds in doubles or picoseconds in integers, which the sum must not
  /// overflow (base/core/units.h).
  double start_times(std::span<const double> duration_s, std::span<double> start_s) const;
  TimePs start_times(std::span<const TimePs> duration_ps, std::span<TimePs> start_ps) const;

 private:
  template <typename Time>
  Time evaluate(std::span<const Time> duration, std::span<Time> start) const;

  std::vector<int> ops_;                ///< ops in topological order
  std::vector<int> predecessor_begin_;  ///< by position in ops_: where its predecessors begin; one more at the end
  std::vector<int> predecessors_;       ///< op indices
};

}  // namespace lowgear::simulator
