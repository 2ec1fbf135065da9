#include "planning/planner/frontier/event_graph.h"

#include <algorithm>
#include <cstdlib>

namespace lowgear::planner {

EventGraph::EventGraph(const ProblemInstance& instance) : ops_(static_cast<std::size_t>(instance.op_count())) {
  build_arcs(instance);
  build_adjacency();
}

void EventGraph::build_arcs(const ProblemInstance& instance) {
  std::vector<bool> has_successor(ops_, false);
  std::vector<bool> has_predecessor(ops_, false);
  const auto add = [this](std::int32_t tail, std::int32_t head) {
    tail_.push_back(tail);
    head_.push_back(head);
  };
  for (int op = 0; op < instance.op_count(); ++op) add(start_node(op), end_node(op));
  for (const schedule::DagEdge& edge : instance.edges) {
    add(end_node(edge.from), start_node(edge.to));
    has_successor[static_cast<std::size_t>(edge.from)] = true;
    has_predecessor[static_cast<std::size_t>(edge.to)] = true;
  }
  for (int op = 0; op < instance.op_count(); ++op) {
    if (!has_predecessor[static_cast<std::size_t>(op)]) add(source(), start_node(op));
    if (!has_successor[static_cast<std::size_t>(op)]) add(end_node(op), sink());
  }
}

void EventGraph::build_adjacency() {
  std::vector<std::vector<std::int32_t>> in(nodes());
  std::vector<std::vector<std::int32_t>> out(nodes());
  for (std::size_t arc = 0; arc < tail_.size(); ++arc) {
    in[static_cast<std::size_t>(head_[arc])].push_back(static_cast<std::int32_t>(arc));
    out[static_cast<std::size_t>(tail_[arc])].push_back(static_cast<std::int32_t>(arc));
  }
  // A search takes the arc it met last first. Staying on a rank (neighbouring op numbers) makes long paths that
  // saturate all microbatches at once.
  const auto far_first = [this](std::int32_t a, std::int32_t b) {
    const auto length = [this](std::int32_t arc) {
      return std::abs(tail_[static_cast<std::size_t>(arc)] - head_[static_cast<std::size_t>(arc)]);
    };
    return length(a) > length(b);
  };
  places_.reserve(nodes() + 1);
  half_arcs_.reserve(2 * tail_.size());
  for (std::size_t node = 0; node < nodes(); ++node) {
    std::stable_sort(in[node].begin(), in[node].end(), far_first);
    std::stable_sort(out[node].begin(), out[node].end(), far_first);
    Adjacency place;
    place.in_begin = static_cast<std::int32_t>(half_arcs_.size());
    for (const std::int32_t arc : in[node]) half_arcs_.push_back({tail_[static_cast<std::size_t>(arc)], arc});
    place.out_begin = static_cast<std::int32_t>(half_arcs_.size());
    for (const std::int32_t arc : out[node]) half_arcs_.push_back({head_[static_cast<std::size_t>(arc)], arc});
    places_.push_back(place);
  }
  places_.push_back({static_cast<std::int32_t>(half_arcs_.size()), static_cast<std::int32_t>(half_arcs_.size())});
}

}  // namespace lowgear::planner
