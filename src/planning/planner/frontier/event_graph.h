#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planning/planner/frontier/instance.h"

namespace lowgear::planner {

/// An instance as a graph of events, for flow. Nodes are the start and the end of every op, and the start (source) and
/// the end (sink) of the iteration. Arcs are the ops first, then the precedences in the instance's order, then those
/// that tie the first and the last ops to source and sink.
class EventGraph {
 public:
  /// An arc as one of its ends sees it.
  struct HalfArc {
    std::int32_t other_node = 0;
    std::int32_t arc = 0;
  };
  /// Where a node's arcs stand in `half_arcs`.
  struct Place {
    std::int32_t in_begin = 0;
    std::int32_t out_begin = 0;  ///< also the end of the arcs in
    std::int32_t out_end = 0;
  };

  explicit EventGraph(const ProblemInstance& instance);

  [[nodiscard]] static std::int32_t start_node(int op) { return 2 * op; }
  [[nodiscard]] static std::int32_t end_node(int op) { return 2 * op + 1; }
  [[nodiscard]] std::int32_t source() const { return static_cast<std::int32_t>(2 * ops_); }
  [[nodiscard]] std::int32_t sink() const { return static_cast<std::int32_t>(2 * ops_) + 1; }
  [[nodiscard]] std::size_t nodes() const { return 2 * ops_ + 2; }
  [[nodiscard]] std::size_t ops() const { return ops_; }
  [[nodiscard]] std::size_t arcs() const { return tail_.size(); }
  [[nodiscard]] bool is_op(std::int32_t arc) const { return static_cast<std::size_t>(arc) < ops_; }
  [[nodiscard]] std::int32_t tail(std::size_t arc) const { return tail_[arc]; }
  [[nodiscard]] std::int32_t head(std::size_t arc) const { return head_[arc]; }
  [[nodiscard]] Place place(std::int32_t node) const {
    const auto index = static_cast<std::size_t>(node);
    return {places_[index].in_begin, places_[index].out_begin, places_[index + 1].in_begin};
  }
  [[nodiscard]] const HalfArc& half_arc(std::int32_t index) const {
    return half_arcs_[static_cast<std::size_t>(index)];
  }

 private:
  struct Adjacency {
    std::int32_t in_begin = 0;
    std::int32_t out_begin = 0;  ///< the next node's in_begin ends the arcs out
  };

  void build_arcs(const ProblemInstance& instance);
  void build_adjacency();

  std::size_t ops_;
  std::vector<std::int32_t> tail_;  ///< node, by arc
  std::vector<std::int32_t> head_;  ///< node, by arc
  std::vector<Adjacency> places_;
  std::vector<HalfArc> half_arcs_;
};

}  // namespace lowgear::planner
