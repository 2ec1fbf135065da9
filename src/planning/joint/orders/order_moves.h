#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/core/units.h"
#include "planning/joint/orders/order_rater.h"
#include "planning/schedule/schedule.h"

namespace lowgear::joint {

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
