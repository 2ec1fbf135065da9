#pragma once

#include <span>
#include <vector>

#include "base/core/op_kind.h"

namespace lowgear::joint {

/// Properties that all orders of a bound share: the rank of each stage, and the number of activations that fit.
struct OrderFreedom {
  std::vector<int> rank_of_stage;     ///< by virtual stage; every rank has the same number of them, equal parts of it
  std::vector<int> most_activations;  ///< by rank, at least 1 each: stage-microbatches (`peak_in_flight_activations`)
  int microbatches = 1;
  bool splits_backward = false;  ///< input and weight gradients are ops by themselves

  [[nodiscard]] int ranks() const { return static_cast<int>(most_activations.size()); }
  [[nodiscard]] int stages_of_a_rank() const { return static_cast<int>(rank_of_stage.size()) / ranks(); }
  /// Ops of one rank and kind, which all cost the same: its stages times microbatches.
  [[nodiscard]] int ops_of_a_group() const { return stages_of_a_rank() * microbatches; }
  /// Kinds of ops, in the order in which groups count them.
  [[nodiscard]] std::span<const OpKind> kinds() const;
  /// Ops of one rank and kind are a group: this is its index.
  [[nodiscard]] std::size_t group(int rank, OpKind kind) const;
  [[nodiscard]] std::size_t groups() const { return static_cast<std::size_t>(ranks()) * kinds().size(); }
};

/// How a path comes to a rank: to its first forward, or to its first backward (input gradient), before which memory
/// limits its number of forwards.
enum class PathBegin : unsigned char { first_forward, first_backward };

/// How a path ends: with the rank's last op; with its last backward (input gradient) and the way back from there; or
/// with its last forward, before which memory asks for most of the rank's other ops, and its microbatch's way to the
/// end. Or it is not one path but those of all places in the rank's memory: what each holds, one after another.
enum class PathEnd : unsigned char { last_op, last_backward, last_forward, activations };

/// A number of different ops of a group, each counted `weight` times.
struct WeightedOps {
  int ops = 0;
  int weight = 1;
};

/// Ops that run one after another in every order, so that their times together are never more than the iteration's; or
/// such ops of `parallel` paths at once, whose times are never more than so many iterations.
struct UnavoidablePath {
  int rank = 0;  ///< whose work or memory it is about
  PathBegin begin = PathBegin::first_forward;
  PathEnd end = PathEnd::last_op;
  int parallel = 1;
  std::vector<std::vector<WeightedOps>> ops;  ///< by group; different ops, weights falling
};

/// The paths that data and memory impose on every order, rank by rank; no path is part of another one. docs/planner.md
/// ("A bound that no order can beat") derives them.
[[nodiscard]] std::vector<UnavoidablePath> unavoidable_paths(const OrderFreedom& freedom);

}  // namespace lowgear::joint
