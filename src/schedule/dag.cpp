#include "schedule/dag.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/error.h"

namespace lowgear {
namespace {

constexpr int kNone = -1;

/// Where each computation of a (stage, microbatch) stands among the graph's ops.
struct OpIndex {
  std::size_t microbatches = 0;
  std::vector<int> forward;
  std::vector<int> gradient;  ///< the backward, or the input_gradient: what stage - 1 waits for
  std::vector<int> weight;    ///< the weight_gradient, or none

  [[nodiscard]] std::size_t at(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * microbatches + static_cast<std::size_t>(microbatch);
  }
};

std::vector<int>& table_of(OpIndex& index, OpKind kind) {
  if (kind == OpKind::forward) return index.forward;
  return kind == OpKind::weight_gradient ? index.weight : index.gradient;
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
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    const ComputeOp& it = dag.ops[op];
    table_of(index, it.kind)[index.at(it.stage, it.microbatch)] = static_cast<int>(op);
  }
  return index;
}

/// "1B0 (rank 1, step 4)", the step counting computations only.
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
    throw InputError(fmt::format("{}: the dependencies cycle: {} needs {}, which the rank runs later; swap them",
                                 schedule.name, describe(dag, to), describe(dag, from)));
  }
}

/// For each op the one on another rank that needs its data, or none.
std::vector<int> link_data(const Schedule& schedule, const PipelineDag& dag, const OpIndex& index) {
  std::vector<int> data_next(dag.ops.size(), kNone);
  for (int stage = 0; stage < dag.stages; ++stage) {
    for (int microbatch = 0; microbatch < dag.microbatches; ++microbatch) {
      const std::size_t here = index.at(stage, microbatch);
      add_dependency(schedule, dag, index.forward[here], index.gradient[here], data_next);
      if (index.weight[here] != kNone) {
        add_dependency(schedule, dag, index.gradient[here], index.weight[here], data_next);
      }
      if (stage + 1 == dag.stages) continue;
      const std::size_t next = index.at(stage + 1, microbatch);
      add_dependency(schedule, dag, index.forward[here], index.forward[next], data_next);
      add_dependency(schedule, dag, index.gradient[next], index.gradient[here], data_next);
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

/// Names a cycle among the ops that the sort could not reach: every one of them waits for another of them.
[[noreturn]] void refuse_cycle(const Schedule& schedule, const PipelineDag& dag, const std::vector<int>& waiting_for) {
  std::vector<int> waits_on(dag.ops.size(), kNone);
  for (const DagEdge& edge : dag.edges) {
    const auto to = static_cast<std::size_t>(edge.to);
    if (waiting_for[static_cast<std::size_t>(edge.from)] == 0 || waiting_for[to] == 0) continue;
    // Prefer data between ranks: the order within a rank is what a reader sees already.
    const bool data = dag.ops[static_cast<std::size_t>(edge.from)].rank != dag.ops[to].rank;
    if (waits_on[to] == kNone || data) waits_on[to] = edge.from;
  }
  int op = static_cast<int>(std::find_if(waits_on.begin(), waits_on.end(), [](int v) { return v != kNone; }) -
                            waits_on.begin());
  std::vector<bool> seen(dag.ops.size(), false);
  for (; !seen[static_cast<std::size_t>(op)]; op = waits_on[static_cast<std::size_t>(op)]) {
    seen[static_cast<std::size_t>(op)] = true;
  }
  std::vector<int> cycle;
  for (int it = op; cycle.empty() || it != op; it = waits_on[static_cast<std::size_t>(it)]) cycle.push_back(it);

  constexpr std::size_t most = 24;
  std::string text = describe(dag, cycle.front());
  for (std::size_t i = 1; i < std::min(cycle.size(), most); ++i) text += " needs " + describe(dag, cycle[i]);
  if (cycle.size() > most) text += fmt::format(" and {} more", cycle.size() - most);
  throw InputError(fmt::format("{}: the dependencies cycle: {} needs {}; reorder one of these ranks", schedule.name,
                               text, describe(dag, cycle.front())));
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
  for (std::size_t done = 0; done < order.size(); ++done) {
    release(order_next(dag, order[done]));
    release(data_next[static_cast<std::size_t>(order[done])]);
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

}  // namespace lowgear
