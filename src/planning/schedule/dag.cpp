#include "planning/schedule/dag.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/core/error.h"

namespace lowgear::schedule {
namespace {

constexpr int kNone = -1;

/// Where each computation of a (stage, microbatch) stands among the graph's ops.
struct OpIndex {
  std::size_t microbatches = 0;
  std::vector<int> forward;
  std::vector<int> gradient;       ///< a backward, or the input_gradient: what stage - 1 waits for
  std::vector<int> weight;         ///< the weight_gradient, or none
  std::vector<int> recomputation;  ///< or none

  [[nodiscard]] std::size_t at(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * microbatches + static_cast<std::size_t>(microbatch);
  }
};

std::vector<int>& table_of(OpIndex& index, OpKind kind) {
  switch (kind) {
    case OpKind::forward:
      return index.forward;
    case OpKind::weight_gradient:
      return index.weight;
    case OpKind::recomputation:
      return index.recomputation;
    default:
      return index.gradient;
  }
}

PipelineDag collect_ops(const Schedule& schedule) {
  PipelineDag dag;
  dag.ranks = schedule.rank_count();
  dag.stages = schedule.stages;
  dag.microbatches = schedule.microbatches;
  dag.ops.reserve(action_count(schedule));
  dag.rank_begin.reserve(schedule.ranks.size() + 1);
  for (int rank = 0; rank < dag.ranks; ++rank) {
    dag.rank_begin.push_back(static_cast<int>(dag.ops.size()));
    for (const Action& action : schedule.ranks[static_cast<std::size_t>(rank)]) {
      if (action.kind == ActionKind::compute) dag.ops.push_back({rank, action.stage, action.op, action.microbatch});
    }
  }
  dag.rank_begin.push_back(static_cast<int>(dag.ops.size()));
  return dag;
}

OpIndex index_ops(const PipelineDag& dag) {
  OpIndex index;
  index.microbatches = static_cast<std::size_t>(dag.microbatches);
  const std::size_t pairs = static_cast<std::size_t>(dag.stages) * index.microbatches;
  index.forward.assign(pairs, kNone);
  index.gradient.assign(pairs, kNone);
  index.weight.assign(pairs, kNone);
  index.recomputation.assign(pairs, kNone);
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    const ComputeOp& it = dag.ops[op];
    table_of(index, it.kind)[index.at(it.stage, it.microbatch)] = static_cast<int>(op);
  }
  return index;
}

/// "1B0 (rank 1, computation 4)".
std::string describe(const PipelineDag& dag, int op) {
  const ComputeOp& it = dag.ops[static_cast<std::size_t>(op)];
  return fmt::format("{} (rank {}, computation {})",
                     to_string(Action{ActionKind::compute, it.kind, it.stage, it.microbatch}), it.rank,
                     op - dag.rank_begin[static_cast<std::size_t>(it.rank)]);
}

/// Adds "`to` after `from`" to the graph: an edge between ranks is noted as the one that `from` has, and one within a
/// rank must agree with its order.
void add_dependency(const Schedule& schedule, const PipelineDag& dag, int from, int to, std::vector<int>& data_next) {
  const bool same_rank = dag.ops[static_cast<std::size_t>(from)].rank == dag.ops[static_cast<std::size_t>(to)].rank;
  if (!same_rank) {
    data_next[static_cast<std::size_t>(from)] = to;
  } else if (from > to) {
    throw InputError(fmt::format("{}: the dependencies cycle: {} waits for {}, which its rank runs later; swap them",
                                 schedule.name, describe(dag, to), describe(dag, from)));
  }
}

/// For each op the one on another rank that needs its data, or none.
std::vector<int> link_data(const Schedule& schedule, const PipelineDag& dag, const OpIndex& index) {
  std::vector<int> data_next(dag.ops.size(), kNone);
  for (int stage = 0; stage < dag.stages; ++stage) {
    for (int microbatch = 0; microbatch < dag.microbatches; ++microbatch) {
      const std::size_t here = index.at(stage, microbatch);
      const bool trained = stage >= schedule.frozen_stages;
      if (trained) add_dependency(schedule, dag, index.forward[here], index.gradient[here], data_next);
      if (index.weight[here] != kNone) {
        add_dependency(schedule, dag, index.gradient[here], index.weight[here], data_next);
      }
      if (const int repeated = index.recomputation[here]; repeated != kNone) {
        add_dependency(schedule, dag, index.forward[here], repeated, data_next);
        add_dependency(schedule, dag, repeated, index.gradient[here], data_next);
      }
      if (stage + 1 == dag.stages) continue;
      const std::size_t next = index.at(stage + 1, microbatch);
      add_dependency(schedule, dag, index.forward[here], index.forward[next], data_next);
      if (trained) add_dependency(schedule, dag, index.gradient[next], index.gradient[here], data_next);
    }
  }
  return data_next;
}

/// The next op of the same rank, or none.
int order_next(const PipelineDag& dag, int op) {
  const auto rank = static_cast<std::size_t>(dag.ops[static_cast<std::size_t>(op)].rank);
  return op + 1 < dag.rank_begin[rank + 1] ? op + 1 : kNone;
}

void add_edges(PipelineDag& dag, const std::vector<int>& data_next) {
  dag.edges.reserve(2 * dag.ops.size());
  for (int op = 0; op < static_cast<int>(dag.ops.size()); ++op) {
    const int order = order_next(dag, op);
    const int data = data_next[static_cast<std::size_t>(op)];
    if (order != kNone) dag.edges.push_back({op, order});
    if (data != kNone) dag.edges.push_back({op, data});
  }
}

/// For each op that the sort could not reach, one that it waits for; these are unreached as well. Data between ranks is
/// preferred: the order within a rank is what a reader sees already.
std::vector<int> unreached_predecessors(const PipelineDag& dag, const std::vector<int>& waiting_for) {
  std::vector<int> predecessor(dag.ops.size(), kNone);
  for (const DagEdge& edge : dag.edges) {
    const auto from = static_cast<std::size_t>(edge.from);
    const auto to = static_cast<std::size_t>(edge.to);
    if (waiting_for[from] == 0 || waiting_for[to] == 0) continue;
    if (predecessor[to] == kNone || dag.ops[from].rank != dag.ops[to].rank) predecessor[to] = edge.from;
  }
  return predecessor;
}

/// Some cycle among the ops that the sort could not reach, each op followed by what it waits for.
std::vector<int> find_cycle(const PipelineDag& dag, const std::vector<int>& waiting_for) {
  const std::vector<int> predecessor = unreached_predecessors(dag, waiting_for);
  const auto next = [&](int op) { return predecessor[static_cast<std::size_t>(op)]; };
  const auto start = std::find_if(predecessor.begin(), predecessor.end(), [](int op) { return op != kNone; });
  int op = static_cast<int>(start - predecessor.begin());
  for (std::vector<bool> seen(dag.ops.size(), false); !seen[static_cast<std::size_t>(op)]; op = next(op)) {
    seen[static_cast<std::size_t>(op)] = true;
  }
  std::vector<int> cycle{op};
  for (int it = next(op); it != op; it = next(it)) cycle.push_back(it);
  return cycle;
}

/// The cycle without the ops that have both neighbours on their own rank: they only stand in between.
std::vector<int> without_passers(const PipelineDag& dag, const std::vector<int>& cycle) {
  const auto rank = [&](std::size_t i) { return dag.ops[static_cast<std::size_t>(cycle[i % cycle.size()])].rank; };
  std::vector<int> kept;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    if (rank(i) != rank(i + 1) || rank(i) != rank(i + cycle.size() - 1)) kept.push_back(cycle[i]);
  }
  return kept;
}

[[noreturn]] void refuse_cycle(const Schedule& schedule, const PipelineDag& dag, const std::vector<int>& waiting_for) {
  const std::vector<int> cycle = without_passers(dag, find_cycle(dag, waiting_for));
  constexpr std::size_t kMostNamed = 16;
  std::string text;
  for (std::size_t i = 0; i < std::min(cycle.size(), kMostNamed); ++i) {
    text += describe(dag, cycle[i]) + (i == 0 ? " waits for " : ", which waits for ");
  }
  if (cycle.size() > kMostNamed) text += fmt::format("{} more, which wait for ", cycle.size() - kMostNamed);
  throw InputError(fmt::format("{}: the dependencies cycle: {}{}; reorder one of these ranks", schedule.name, text,
                               describe(dag, cycle.front())));
}

void sort_topologically(const Schedule& schedule, PipelineDag& dag, const std::vector<int>& data_next) {
  std::vector<int> waiting_for(dag.ops.size(), 0);
  for (const DagEdge& edge : dag.edges) ++waiting_for[static_cast<std::size_t>(edge.to)];
  auto& order = dag.topological_order;
  order.reserve(dag.ops.size());
  for (int op = 0; op < static_cast<int>(dag.ops.size()); ++op) {
    if (waiting_for[static_cast<std::size_t>(op)] == 0) order.push_back(op);
  }
  const auto release = [&](int op) {
    if (op != kNone && --waiting_for[static_cast<std::size_t>(op)] == 0) order.push_back(op);
  };
  std::size_t done = 0;
  while (done < order.size()) {
    const int op = order[done++];
    release(order_next(dag, op));
    release(data_next[static_cast<std::size_t>(op)]);
  }
  if (order.size() != dag.ops.size()) refuse_cycle(schedule, dag, waiting_for);
}

}  // namespace

PipelineDag build_dag(const Schedule& schedule) {
  validate(schedule);
  PipelineDag dag = collect_ops(schedule);
  const std::vector<int> data_next = link_data(schedule, dag, index_ops(dag));
  add_edges(dag, data_next);
  sort_topologically(schedule, dag, data_next);
  return dag;
}

}  // namespace lowgear::schedule
