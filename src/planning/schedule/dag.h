#pragma once

#include <vector>

#include "planning/schedule/schedule.h"

namespace lowgear::schedule {

/// One computation of an iteration.
struct ComputeOp {
  int rank = 0;
  int stage = 0;  ///< virtual stage
  OpKind kind = OpKind::forward;
  int microbatch = 0;

  friend bool operator==(const ComputeOp&, const ComputeOp&) = default;
};

/// `to` may not start before `from` has finished.
struct DagEdge {
  int from = 0;
  int to = 0;

  friend bool operator==(const DagEdge&, const DagEdge&) = default;
};

/// The dependency graph of a schedule: its computations, and what must wait for what. Communication takes no time here:
/// a profile's times include it.
struct PipelineDag {
  int ranks = 0;
  int stages = 0;
  int microbatches = 0;
  std::vector<ComputeOp> ops;          ///< rank by rank, each rank in its order of execution
  std::vector<int> rank_begin;         ///< ops of rank r are [rank_begin[r], rank_begin[r + 1]); size ranks + 1
  std::vector<DagEdge> edges;          ///< order within a rank, and data between ranks; by `from`, no edge twice
  std::vector<int> topological_order;  ///< op indices; deterministic
};

/// Derives the graph. Data dependencies: F(s,m) after F(s-1,m); B or I(s,m) after B or I(s+1,m), on the last stage
/// after F(s,m); F(s,m) before B or I(s,m); W(s,m) after I(s,m); R(s,m) after F(s,m) and before B or I(s,m), so that it
/// may run before the gradient is there; C(s,m) as B; frozen stages have only F. Those within one rank are implied by
/// its order and get no edge of their own, so an op has at most two edges in and two out. Throws InputError naming the
/// ops of a cycle when the order contradicts the data, and whatever `validate` throws.
[[nodiscard]] PipelineDag build_dag(const Schedule& schedule);

}  // namespace lowgear::schedule
