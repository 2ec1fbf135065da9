#include "rivals/policies/envpipe/critical_path.h"

#include <algorithm>
#include <cstddef>
#include <queue>

namespace lowgear::policies {

CriticalPathFinder::CriticalPathFinder(const schedule::PipelineDag& dag)
    : dag_(&dag), successors_(dag.ops.size()), start_(dag.ops.size()), to_end_(dag.ops.size()) {
  std::vector<bool> waits(dag.ops.size(), false);
  for (const schedule::DagEdge& edge : dag.edges) {
    successors_[static_cast<std::size_t>(edge.from)].push_back(edge.to);
    waits[static_cast<std::size_t>(edge.to)] = true;
  }
  for (const int op : dag.topological_order) {
    if (!waits[static_cast<std::size_t>(op)]) first_ops_.push_back(op);
  }
  order_successors();
}

std::vector<int> CriticalPathFinder::find(std::span<const int> units) {
  const std::int64_t makespan = measure(units);
  std::vector<int> path;
  int op = first_critical(first_ops_, 0, makespan);
  while (op >= 0) {
    path.push_back(op);
    const auto index = static_cast<std::size_t>(op);
    op = first_critical(successors_[index], start_[index] + units[index], makespan);
  }
  return path;
}

void CriticalPathFinder::order_successors() {
  const auto rank = [this](int op) { return dag_->ops[static_cast<std::size_t>(op)].rank; };
  constexpr auto kNotMet = static_cast<std::size_t>(-1);
  std::vector<std::size_t> place(successors_.size(), kNotMet);
  std::size_t met = 0;
  std::queue<int> queue;
  const auto meet = [&](int op) {
    if (place[static_cast<std::size_t>(op)] != kNotMet) return;
    place[static_cast<std::size_t>(op)] = met++;
    queue.push(op);
  };
  for (const int op : first_ops_) meet(op);
  for (; !queue.empty(); queue.pop()) {
    const int op = queue.front();
    std::vector<int>& next_ops = successors_[static_cast<std::size_t>(op)];
    std::stable_partition(next_ops.begin(), next_ops.end(), [&](int next) { return rank(next) == rank(op); });
    for (const int next : next_ops) meet(next);
  }
  for (std::vector<int>& next_ops : successors_) {
    std::ranges::sort(next_ops, {}, [&](int next) { return place[static_cast<std::size_t>(next)]; });
  }
}

/// Fills start_ and to_end_; returns the makespan.
std::int64_t CriticalPathFinder::measure(std::span<const int> units) {
  std::ranges::fill(start_, 0);
  for (const int op : dag_->topological_order) {
    const auto index = static_cast<std::size_t>(op);
    for (const int next : successors_[index]) {
      std::int64_t& start = start_[static_cast<std::size_t>(next)];
      start = std::max(start, start_[index] + units[index]);
    }
  }
  std::int64_t makespan = 0;
  for (std::size_t i = dag_->topological_order.size(); i-- > 0;) {
    const auto index = static_cast<std::size_t>(dag_->topological_order[i]);
    std::int64_t after = 0;
    for (const int next : successors_[index]) after = std::max(after, to_end_[static_cast<std::size_t>(next)]);
    to_end_[index] = after + units[index];
    makespan = std::max(makespan, to_end_[index]);
  }
  return makespan;
}

/// The first of `ops` that starts at `start` and has no slack; -1 when there is none.
int CriticalPathFinder::first_critical(std::span<const int> ops, std::int64_t start, std::int64_t makespan) const {
  for (const int op : ops) {
    const auto index = static_cast<std::size_t>(op);
    if (start_[index] == start && start_[index] + to_end_[index] == makespan) return op;
  }
  return -1;
}

}  // namespace lowgear::policies
