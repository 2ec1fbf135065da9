#include "planning/simulator/timing_graph.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

namespace lowgear::simulator {

TimingGraph::TimingGraph(const schedule::PipelineDag& dag) : ops_(dag.topological_order) {
  const std::size_t count = ops_.size();
  std::vector<int> position(count);
  for (std::size_t i = 0; i < count; ++i) {
    position[static_cast<std::size_t>(ops_[i])] = static_cast<int>(i);
  }
  predecessor_begin_.assign(count + 1, 0);
  for (const schedule::DagEdge& edge : dag.edges) {
    ++predecessor_begin_[static_cast<std::size_t>(position[static_cast<std::size_t>(edge.to)]) + 1];
  }
  for (std::size_t i = 0; i < count; ++i) {
    predecessor_begin_[i + 1] += predecessor_begin_[i];
  }
  predecessors_.resize(dag.edges.size());
  std::vector<int> next(predecessor_begin_.begin(), predecessor_begin_.end() - 1);
  for (const schedule::DagEdge& edge : dag.edges) {
    int& slot = next[static_cast<std::size_t>(position[static_cast<std::size_t>(edge.to)])];
    predecessors_[static_cast<std::size_t>(slot++)] = edge.from;
  }
}

template <typename Time>
Time TimingGraph::evaluate(std::span<const Time> duration, std::span<Time> start) const {
  assert(duration.size() == ops_.size() && start.size() == ops_.size());
  Time makespan = 0;
  const int* predecessor = predecessors_.data();
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    Time earliest = 0;
    for (const int* end = predecessors_.data() + predecessor_begin_[i + 1]; predecessor != end; ++predecessor) {
      const auto from = static_cast<std::size_t>(*predecessor);
      earliest = std::max(earliest, start[from] + duration[from]);
    }
    const auto op = static_cast<std::size_t>(ops_[i]);
    start[op] = earliest;
    makespan = std::max(makespan, earliest + duration[op]);
  }
  return makespan;
}

double TimingGraph::start_times(std::span<const double> duration_s, std::span<double> start_s) const {
  return evaluate<double>(duration_s, start_s);
}

TimePs TimingGraph::start_times(std::span<const TimePs> duration_ps, std::span<TimePs> start_ps) const {
  return evaluate<TimePs>(duration_ps, start_ps);
}

}  // namespace lowgear::simulator
