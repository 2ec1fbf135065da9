#include "planning/joint/orders/order_moves.h"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "planning/planner/planners/at.h"

namespace lowgear::joint {
namespace {

using schedule::Action;
using schedule::ComputeOp;

using planner::at;

bool is_backward(OpKind kind) { return kind == OpKind::backward || kind == OpKind::input_gradient; }

/// Whether `second` needs what `first` makes, or both are one stage's turn of two microbatches.
bool must_keep_order(const ComputeOp& first, const ComputeOp& second) {
  if (first.kind == second.kind && first.stage == second.stage) return true;
  if (first.microbatch != second.microbatch) return false;
  if (first.stage == second.stage) return true;
  const bool forwards = first.kind == OpKind::forward && second.kind == OpKind::forward;
  const bool backwards = is_backward(first.kind) && is_backward(second.kind);
  return (forwards && second.stage == first.stage + 1) || (backwards && second.stage == first.stage - 1);
}

/// What makes exchanges alike.
using Likeness = std::tuple<int, OpKind, OpKind, int, int, int>;

struct PricedExchange {
  Exchange exchange;
  PowerNw flow_nw = 0;
};

std::map<Likeness, std::vector<PricedExchange>> priced_exchanges(const OrderSolution& solution) {
  std::map<Likeness, std::vector<PricedExchange>> groups;
  const schedule::PipelineDag& dag = solution.dag;
  for (std::size_t edge = 0; edge < dag.edges.size(); ++edge) {
    const auto [from, to] = dag.edges[edge];
    const ComputeOp& first = dag.ops[at(from)];
    const ComputeOp& second = dag.ops[at(to)];
    if (to != from + 1 || first.rank != second.rank || must_keep_order(first, second)) continue;
    const PricedExchange found{{at(first.rank), at(from - dag.rank_begin[at(first.rank)])},
                               solution.edge_flow_nw[edge]};
    groups[{first.rank, first.kind, second.kind, first.stage, second.stage, second.microbatch - first.microbatch}]
        .push_back(found);
  }
  return groups;
}

OrderMove together(std::span<const PricedExchange> exchanges) {
  OrderMove move;
  for (const PricedExchange& exchange : exchanges) {
    move.exchanges.push_back(exchange.exchange);
    move.flow_nw += exchange.flow_nw;
  }
  return move;
}

/// How far every stage's microbatches have come on a walk through the order.
class OrderWalk {
 public:
  explicit OrderWalk(const schedule::Schedule& order) : stages_(order.stages), microbatches_(order.microbatches) {
    forward_done_.resize(at(stages_) * at(microbatches_));
    backward_done_.resize(forward_done_.size());
  }

  [[nodiscard]] bool is_ready(const Action& action) const {
    if (action.op == OpKind::forward) {
      return action.stage == 0 || forward_done_[place(action.stage - 1, action.microbatch)];
    }
    if (action.op == OpKind::weight_gradient) return backward_done_[place(action.stage, action.microbatch)];
    return forward_done_[place(action.stage, action.microbatch)] &&
           (action.stage + 1 == stages_ || backward_done_[place(action.stage + 1, action.microbatch)]);
  }

  void pass(const Action& action) {
    if (action.op == OpKind::forward) forward_done_[place(action.stage, action.microbatch)] = true;
    if (is_backward(action.op)) backward_done_[place(action.stage, action.microbatch)] = true;
  }

 private:
  [[nodiscard]] std::size_t place(int stage, int microbatch) const {
    return at(stage) * at(microbatches_) + at(microbatch);
  }

  int stages_;
  int microbatches_;
  std::vector<bool> forward_done_;
  std::vector<bool> backward_done_;
};

}  // namespace

std::vector<OrderMove> priced_moves(const schedule::Schedule& order, const OrderSolution& solution, std::size_t count) {
  if (solution.edge_flow_nw.empty() || order.ranks.empty()) return {};
  std::vector<OrderMove> moves;
  std::vector<OrderMove> single;
  for (const auto& [likeness, exchanges] : priced_exchanges(solution)) {
    const std::span all(exchanges);
    for (const PricedExchange& exchange : exchanges) single.push_back(together({&exchange, 1}));
    if (all.size() < 2) continue;
    moves.push_back(together(all));
    if (all.size() < 4) continue;
    moves.push_back(together(all.first(all.size() / 2)));
    moves.push_back(together(all.subspan(all.size() / 2)));
  }
  const auto by_flow = [](std::vector<OrderMove>& some, std::size_t most) {
    std::erase_if(some, [](const OrderMove& move) { return move.flow_nw <= 0; });
    std::ranges::stable_sort(some, std::ranges::greater(), &OrderMove::flow_nw);
    if (some.size() > most) some.resize(most);
  };
  by_flow(moves, count - count / 3);
  by_flow(single, count - moves.size());
  moves.insert(moves.end(), single.begin(), single.end());
  return moves;
}

std::optional<schedule::Schedule> moved(const schedule::Schedule& order, const OrderMove& move) {
  schedule::Schedule changed = order;
  for (const Exchange& exchange : move.exchanges) {
    auto& actions = changed.ranks[exchange.rank];
    std::swap(actions[exchange.place], actions[exchange.place + 1]);
  }
  if (!can_run(changed)) return std::nullopt;
  return changed;
}

bool can_run(const schedule::Schedule& order) {
  OrderWalk walk(order);
  std::vector<std::size_t> next(order.ranks.size());
  bool progress = true;
  while (progress) {
    progress = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      const std::vector<Action>& actions = order.ranks[rank];
      while (next[rank] < actions.size() && walk.is_ready(actions[next[rank]])) {
        walk.pass(actions[next[rank]++]);
        progress = true;
      }
    }
  }
  for (std::size_t rank = 0; rank < next.size(); ++rank) {
    if (next[rank] < order.ranks[rank].size()) return false;
  }
  return true;
}

}  // namespace lowgear::joint
