#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planning/schedule/dag.h"

namespace lowgear::policies {

/// Finds a critical path of a pipeline again and again as op times change. Where it branches, the op that a
/// breadth-first walk from the start meets first is taken, an op's successor on its own rank before those on others.
/// (Perseus' artifact has this order; other ones lead its EnvPipe to slightly different plans.)
class CriticalPathFinder {
 public:
  /// `dag` must outlive the finder.
  explicit CriticalPathFinder(const schedule::PipelineDag& dag);

  /// Ops of the path, in order. `units` is the time of every op, in any unit, at least 1.
  [[nodiscard]] std::vector<int> find(std::span<const int> units);

 private:
  void order_successors();
  std::int64_t measure(std::span<const int> units);
  [[nodiscard]] int first_critical(std::span<const int> ops, std::int64_t start, std::int64_t makespan) const;

  const schedule::PipelineDag* dag_;
  std::vector<int> first_ops_;                ///< ops that wait for nothing
  std::vector<std::vector<int>> successors_;  ///< by op, in the order in which they are preferred
  std::vector<std::int64_t> start_;           ///< by op: earliest start
  std::vector<std::int64_t> to_end_;          ///< by op: longest way from its start to the end
};

}  // namespace lowgear::policies
