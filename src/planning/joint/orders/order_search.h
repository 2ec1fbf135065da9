#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/core/progress.h"
#include "base/core/units.h"
#include "planning/joint/orders/joint_problem.h"
#include "planning/joint/orders/order_rater.h"
#include "planning/planner/frontier/work_report.h"
#include "planning/schedule/list_schedule.h"
#include "planning/schedule/schedule.h"

namespace lowgear::joint {

/// An order with its cost.
struct RatedOrder {
  schedule::Schedule order;  ///< named after its generator: `zb-h1`, `list-v`, `list+moves`
  OrderCurve curve;
};

/// Searches orders of a pipeline that fit into memory, for the least energy at deadlines. Every order can run, and 1F1B
/// is among the first ones where it fits. Deterministic: counts bound the search, not time.
class OrderSearch {
 public:
  /// Rates the first orders: known ones and list schedules for full clocks; only from `from_s` on where that is later
  /// than T_min (0: the whole curves). `progress` may be null; else it must outlive the search, and every call throws
  /// what it throws. Throws InputError when
  /// a stage has neither whole nor split backwards.
  explicit OrderSearch(JointProblem problem, double from_s = 0, Progress* progress = nullptr);
  OrderSearch(const OrderSearch&) = delete;
  OrderSearch& operator=(const OrderSearch&) = delete;
  ~OrderSearch() = default;

  /// Of all orders so far.
  [[nodiscard]] double fastest_s() const;
  [[nodiscard]] double slowest_s() const;
  [[nodiscard]] std::span<const RatedOrder> orders() const { return orders_; }

  /// Takes one more order into account, if every rank has memory for it and it is not known. It must be valid.
  void consider(schedule::Schedule order);

  /// Looks for better orders at this deadline: list schedules for the times that planned clocks give the ops, and moves
  /// where prices say that an order costs energy. `solves` bounds the work: optima that are computed.
  void improve_at(double deadline_s, std::size_t solves);

  /// Index of the order of least energy; the first of equal ones. The deadline must not be before `fastest_s`.
  [[nodiscard]] std::size_t best_at(double deadline_s) const;
  /// Few orders that are good at all deadlines: the best ones, without those for which others need at most `tolerance`
  /// (relative) more. By index, in the order in which they are needed.
  [[nodiscard]] std::vector<std::size_t> few_for(std::span<const double> deadlines_s, double tolerance) const;

 private:
  struct Incumbent {
    schedule::Schedule order;
    OrderSolution solution;
  };
  void rebuild(Incumbent& best, double deadline_s, std::size_t& solves);
  bool improve_once(Incumbent& best, double deadline_s, std::size_t& solves);
  [[nodiscard]] bool try_order(schedule::Schedule order, double deadline_s, Incumbent& best, std::size_t& solves) const;

  JointProblem problem_;
  double from_s_;
  planner::WorkReport work_;
  OrderRater rater_;
  std::vector<RatedOrder> orders_;
};

/// How many solves an improvement of one deadline may take, so that it takes about a second whatever the pipeline's
/// size: from 8 to 400.
[[nodiscard]] std::size_t solves_for(const JointProblem& problem);

/// Neighbours on a rank that change places: those at `place` and `place + 1`.
struct Exchange {
  std::size_t rank = 0;
  std::size_t place = 0;
};

/// Exchanges that are made together, none of which touches the op of another.
struct OrderMove {
  std::vector<Exchange> exchanges;
  PowerNw flow_nw = 0;  ///< that runs through the neighbours' order: what giving it up may be worth
};

/// Moves that an optimum's prices suggest: neighbours whose order, which no data asks for, carries flow. Those of one
/// rank that are alike (the same kinds and stages, microbatches as far apart) are one move, as an order in its steady
/// state is only as good as all its repetitions; so are the first and the second half of them, and single exchanges.
/// Most flow first, at most `count`.
[[nodiscard]] std::vector<OrderMove> priced_moves(const schedule::Schedule& order, const OrderSolution& solution,
                                                  std::size_t count);

/// The order after the move; empty when it could not run, because data contradict it.
[[nodiscard]] std::optional<schedule::Schedule> moved(const schedule::Schedule& order, const OrderMove& move);

/// Whether every op comes after those that it needs data from, on all ranks together: no cycle. `order` is valid.
[[nodiscard]] bool can_run(const schedule::Schedule& order);

}  // namespace lowgear::joint
