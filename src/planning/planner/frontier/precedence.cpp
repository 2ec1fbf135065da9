#include "planning/planner/frontier/precedence.h"

#include <algorithm>
#include <numeric>

namespace lowgear::planner {
namespace {

/// Groups `item(edge)` by `key(edge)` in compressed rows.
template <typename Key, typename Item>
void group(const std::vector<schedule::DagEdge>& edges, std::size_t ops, Key key, Item item,
           std::vector<std::int32_t>& begin, std::vector<std::int32_t>& items) {
  begin.assign(ops + 1, 0);
  for (const schedule::DagEdge& edge : edges) ++begin[static_cast<std::size_t>(key(edge)) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  items.resize(edges.size());
  std::vector<std::int32_t> next(begin.begin(), begin.end() - 1);
  for (const schedule::DagEdge& edge : edges) {
    items[static_cast<std::size_t>(next[static_cast<std::size_t>(key(edge))]++)] = item(edge);
  }
}

}  // namespace

PrecedenceGraph::PrecedenceGraph(const ProblemInstance& instance)
    : order_(instance.topological_order.begin(), instance.topological_order.end()),
      reverse_order_(instance.topological_order.rbegin(), instance.topological_order.rend()) {
  const auto from = [](const schedule::DagEdge& edge) { return edge.from; };
  const auto to = [](const schedule::DagEdge& edge) { return edge.to; };
  const std::size_t ops = order_.size();
  group(instance.edges, ops, to, from, predecessor_begin_, predecessors_);
  group(instance.edges, ops, from, to, successor_begin_, successors_);
}

TimePs PrecedenceGraph::finish_times(std::span<const TimePs> time_ps, std::span<TimePs> finish_ps) const {
  TimePs makespan_ps = 0;
  for (const std::int32_t op : order_) {
    TimePs start_ps = 0;
    for (const std::int32_t before : predecessors(op)) {
      start_ps = std::max(start_ps, finish_ps[static_cast<std::size_t>(before)]);
    }
    finish_ps[static_cast<std::size_t>(op)] = start_ps + time_ps[static_cast<std::size_t>(op)];
    makespan_ps = std::max(makespan_ps, finish_ps[static_cast<std::size_t>(op)]);
  }
  return makespan_ps;
}

}  // namespace lowgear::planner
