#include "planning/joint/orders/order_search.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "base/core/error.h"
#include "planning/joint/orders/candidate_orders.h"
#include "planning/planner/planners/planning_model.h"

namespace lowgear::joint {

namespace {

/// Moves that are tried in one round.
constexpr std::size_t kMovesPerRound = 24;
/// Least relative gain that counts: below the rounding of ratings.
constexpr double kLeastGain = 2e-6;

constexpr const char* kMovedSuffix = "+moves";
constexpr const char* kImproving = "improving orders";

/// Mean times of every stage's ops in a solution.
std::vector<schedule::StageTimes> mean_times(const OrderSolution& solution) {
  struct Sum {
    TimePs time_ps = 0;
    TimePs count = 0;
    void add(TimePs t) { time_ps += t, ++count; }
    [[nodiscard]] TimePs mean() const { return count == 0 ? 0 : time_ps / count; }
  };
  std::vector<std::array<Sum, kOpKindCount>> sums(static_cast<std::size_t>(solution.dag.stages));
  for (std::size_t op = 0; op < solution.dag.ops.size(); ++op) {
    const schedule::ComputeOp& it = solution.dag.ops[op];
    sums[static_cast<std::size_t>(it.stage)][static_cast<std::size_t>(it.kind)].add(solution.op_time_ps[op]);
  }
  std::vector<schedule::StageTimes> times;
  const auto of = [](const auto& stage, OpKind kind) { return stage[static_cast<std::size_t>(kind)].mean(); };
  for (const auto& stage : sums) {
    times.push_back({.forward_ps = of(stage, OpKind::forward),
                     .backward_ps = std::max(of(stage, OpKind::backward), of(stage, OpKind::input_gradient)),
                     .weight_gradient_ps = of(stage, OpKind::weight_gradient)});
  }
  return times;
}

/// A whole backward is half input, half weight gradient where only the whole one has run.
void complete(std::vector<schedule::StageTimes>& times, bool splits_backward) {
  if (!splits_backward) return;
  for (schedule::StageTimes& stage : times) {
    if (stage.weight_gradient_ps > 0) continue;
    stage.weight_gradient_ps = stage.backward_ps / 2;
    stage.backward_ps -= stage.weight_gradient_ps;
  }
}

schedule::StageLayout layout_of(const schedule::Schedule& order) {
  schedule::StageLayout layout(order.ranks.size());
  const std::vector<int> rank_of = rank_of_stage(order);
  for (int stage = 0; stage < order.stages; ++stage) {
    layout[static_cast<std::size_t>(rank_of[static_cast<std::size_t>(stage)])].push_back(stage);
  }
  return layout;
}

/// List schedules for full clocks, in every layout.
std::vector<schedule::Schedule> all_lists(const JointProblem& problem, planner::WorkReport& work) {
  std::vector<schedule::Schedule> orders;
  for (const schedule::StageLayout& layout : layouts(problem.ranks())) {
    if (layout.front().size() > 1 && !problem.may_divide_stages()) continue;
    work.begin("making orders", -1);
    for (schedule::Schedule& order : list_orders(problem, layout, times_at_full_clocks(problem, layout))) {
      orders.push_back(std::move(order));
    }
  }
  return orders;
}

/// Places of the orders that are among the best of theirs somewhere between the fastest and the slowest time.
std::vector<std::size_t> promising(std::span<const OrderCurve> curves) {
  constexpr int kSamples = 8;
  constexpr double kWithin = 3e-3;  // relative
  double fastest_s = std::numeric_limits<double>::infinity();
  double slowest_s = 0;
  for (const OrderCurve& curve : curves) {
    fastest_s = std::min(fastest_s, curve.fastest_s());
    slowest_s = std::max(slowest_s, curve.slowest_s());
  }
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    for (int k = 0; k <= kSamples; ++k) {
      const double time_s = fastest_s + (slowest_s - fastest_s) * k / kSamples;
      double least_j = std::numeric_limits<double>::infinity();
      for (const OrderCurve& curve : curves) least_j = std::min(least_j, curve.energy_j_at(time_s));
      if (curves[i].energy_j_at(time_s) > least_j * (1 + kWithin)) continue;
      kept.push_back(i);
      break;
    }
  }
  return kept;
}

/// The known orders and list schedules. With many microbatches only the rules are applied that are good for few:
/// an order's steady state hardly depends on their number, and rating takes longer the more there are.
std::vector<schedule::Schedule> first_orders(const JointProblem& problem, planner::WorkReport& work) {
  constexpr int kRounds = 3;
  std::vector<schedule::Schedule> orders = known_orders(problem);
  std::vector<schedule::Schedule> lists = all_lists(problem, work);
  JointProblem fewer = problem;
  fewer.microbatches = kRounds * problem.ranks();
  const std::vector<schedule::Schedule> of_few =
      fewer.microbatches < problem.microbatches ? all_lists(fewer, work) : std::vector<schedule::Schedule>{};
  if (of_few.size() != lists.size()) {
    std::ranges::move(lists, std::back_inserter(orders));
    return orders;
  }
  const OrderRater rater(fewer, &work);
  std::vector<OrderCurve> curves;
  for (const schedule::Schedule& order : of_few) curves.push_back(rater.rate(order));
  for (const std::size_t i : promising(curves)) orders.push_back(std::move(lists[i]));
  return orders;
}

bool touches(const OrderMove& a, const OrderMove& b) {
  const auto distance = [](std::size_t x, std::size_t y) { return x > y ? x - y : y - x; };
  return std::ranges::any_of(a.exchanges, [&](const Exchange& one) {
    return std::ranges::any_of(b.exchanges, [&](const Exchange& other) {
      return one.rank == other.rank && distance(one.place, other.place) <= 1;
    });
  });
}

}  // namespace

OrderSearch::OrderSearch(JointProblem problem, double from_s, Progress* progress)
    : problem_(std::move(problem)), from_s_(from_s), work_(progress), rater_(problem_, &work_) {
  require_trained(problem_);
  std::vector<schedule::Schedule> first = first_orders(problem_, work_);
  for (std::size_t i = 0; i < first.size(); ++i) {
    work_.begin("rating orders", static_cast<double>(i) / static_cast<double>(first.size()));
    consider(std::move(first[i]));
  }
}

void OrderSearch::consider(schedule::Schedule order) {
  if (!problem_.fits(order)) return;
  const bool known =
      std::ranges::any_of(orders_, [&](const RatedOrder& other) { return other.order.ranks == order.ranks; });
  if (known) return;
  OrderCurve curve = rater_.rate(order, from_s_);
  orders_.push_back({std::move(order), std::move(curve)});
}

double OrderSearch::fastest_s() const {
  double fastest = std::numeric_limits<double>::infinity();
  for (const RatedOrder& order : orders_) fastest = std::min(fastest, order.curve.fastest_s());
  return fastest;
}

double OrderSearch::slowest_s() const {
  const auto least =
      std::ranges::min_element(orders_, {}, [](const RatedOrder& order) { return order.curve.points.back().energy_j; });
  return std::max(least->curve.slowest_s(), fastest_s());
}

std::size_t OrderSearch::best_at(double deadline_s) const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < orders_.size(); ++i) {
    if (orders_[i].curve.energy_j_at(deadline_s) < orders_[best].curve.energy_j_at(deadline_s)) best = i;
  }
  return best;
}

bool OrderSearch::try_order(schedule::Schedule order, double deadline_s, Incumbent& best, std::size_t& solves) const {
  if (solves == 0 || !problem_.fits(order)) return false;
  --solves;
  OrderSolution solution = rater_.solve(order, deadline_s);
  if (!(solution.energy_j < best.solution.energy_j * (1 - kLeastGain))) return false;
  best = {std::move(order), std::move(solution)};
  return true;
}

void OrderSearch::rebuild(Incumbent& best, double deadline_s, std::size_t& solves) {
  std::vector<schedule::StageTimes> times = mean_times(best.solution);
  complete(times, problem_.may_split());
  for (schedule::Schedule& order : list_orders(problem_, layout_of(best.order), times)) {
    (void)try_order(std::move(order), deadline_s, best, solves);
  }
}

bool OrderSearch::improve_once(Incumbent& best, double deadline_s, std::size_t& solves) {
  const Incumbent start = best;
  struct Gain {
    OrderMove move;
    double energy_j = 0;
  };
  std::vector<Gain> gains;
  for (OrderMove& move : priced_moves(start.order, start.solution, kMovesPerRound)) {
    Incumbent after = start;
    std::optional<schedule::Schedule> order = moved(start.order, move);
    if (order && try_order(std::move(*order), deadline_s, after, solves)) {
      gains.push_back({std::move(move), after.solution.energy_j});
    }
  }
  std::ranges::stable_sort(gains, {}, &Gain::energy_j);
  OrderMove made;
  for (const Gain& gain : gains) {
    if (touches(made, gain.move)) continue;
    OrderMove both = made;
    both.exchanges.insert(both.exchanges.end(), gain.move.exchanges.begin(), gain.move.exchanges.end());
    std::optional<schedule::Schedule> order = moved(start.order, both);
    std::size_t one_more = 1;  // the best move alone has been solved before
    if (!order || !try_order(std::move(*order), deadline_s, best, made.exchanges.empty() ? one_more : solves)) continue;
    made = std::move(both);
  }
  return !made.exchanges.empty();
}

void OrderSearch::improve_at(double deadline_s, std::size_t solves) {
  const std::size_t all = solves;
  work_.begin(kImproving, 0);
  Incumbent best;
  best.order = orders_[best_at(deadline_s)].order;
  best.solution = rater_.solve(best.order, deadline_s);
  if (best.solution.op_time_ps.empty()) return;
  const schedule::Schedule before = best.order;
  rebuild(best, deadline_s, solves);
  bool has_moved = false;
  while (solves > 0 && improve_once(best, deadline_s, solves)) {
    has_moved = true;
    work_.begin(kImproving, static_cast<double>(all - solves) / static_cast<double>(all));
  }
  if (best.order.ranks == before.ranks) return;
  if (has_moved && !best.order.name.ends_with(kMovedSuffix)) best.order.name += kMovedSuffix;
  consider(std::move(best.order));
}

std::size_t solves_for(const JointProblem& problem) {
  constexpr std::size_t kOpSolves = 16'000;
  constexpr std::size_t kKinds = 3;
  const auto ops = static_cast<std::size_t>(problem.ranks()) * static_cast<std::size_t>(problem.microbatches) * kKinds;
  return std::clamp<std::size_t>(kOpSolves / ops, 8, 400);
}

std::vector<std::size_t> OrderSearch::few_for(std::span<const double> deadlines_s, double tolerance) const {
  std::vector<std::size_t> needed;
  for (const double deadline_s : deadlines_s) {
    const std::size_t best = best_at(deadline_s);
    if (std::ranges::find(needed, best) == needed.end()) needed.push_back(best);
  }
  const auto energy_of = [&](std::span<const std::size_t> some, double deadline_s) {
    double energy_j = std::numeric_limits<double>::infinity();
    for (const std::size_t i : some) energy_j = std::min(energy_j, orders_[i].curve.energy_j_at(deadline_s));
    return energy_j;
  };
  const std::vector<std::size_t> all = needed;
  const auto loses_little = [&](std::span<const std::size_t> some) {
    return std::ranges::all_of(deadlines_s, [&](double deadline_s) {
      return energy_of(some, deadline_s) <= energy_of(all, deadline_s) * (1 + tolerance);
    });
  };
  for (std::size_t k = needed.size(); k-- > 0 && needed.size() > 1;) {
    std::vector<std::size_t> fewer = needed;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(k));
    if (loses_little(fewer)) needed = std::move(fewer);
  }
  return needed;
}

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
