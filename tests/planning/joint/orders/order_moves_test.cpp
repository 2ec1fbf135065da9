#include "planning/joint/orders/order_moves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/core/error_of.h"
#include "planning/joint/orders/candidate_orders.h"
#include "planning/joint/orders/sample_orders.h"
#include "planning/schedule/generators.h"

namespace lowgear::joint {
namespace {

/// The order with two neighbours of a rank exchanged, whatever they are.
schedule::Schedule shuffled(schedule::Schedule order, std::mt19937& random) {
  auto& actions = order.ranks[random() % order.ranks.size()];
  if (actions.size() < 2) return order;
  const std::size_t place = random() % (actions.size() - 1);
  std::swap(actions[place], actions[place + 1]);
  return order;
}

TEST(CanRun, AgreesWithTheDependencyGraph) {
  std::mt19937 random(7);
  int impossible = 0;
  for (int i = 0; i < 600; ++i) {
    schedule::Schedule order = i % 2 == 0 ? schedule::zb_v_schedule(3, 4) : schedule::one_f_one_b_schedule(4, 5);
    for (int k = 0; k < 4; ++k) order = shuffled(order, random);
    const bool has_graph = error_of([&] { (void)build_dag(order); }) == "no error";
    ASSERT_EQ(can_run(order), has_graph) << i;
    impossible += has_graph ? 0 : 1;
  }
  EXPECT_GT(impossible, 50);
}

TEST(PricedMoves, AreOfNeighboursAndKeepTheWork) {
  const JointProblem problem = sample_orders({0.05, 0.05, 0.06}, 6, {.microbatches = {3}});
  const OrderRater rater(problem);
  for (const schedule::Schedule& order : known_orders(problem)) {
    const OrderCurve curve = rater.rate(order);
    const OrderSolution solution = rater.solve(order, (curve.fastest_s() + curve.slowest_s()) / 2);
    for (const OrderMove& move : priced_moves(order, solution, 30)) {
      EXPECT_GT(move.flow_nw, 0);
      const std::optional<schedule::Schedule> after = moved(order, move);
      if (!after) continue;
      EXPECT_EQ(error_of([&] { validate(*after); }), "no error");
      EXPECT_NE(after->ranks, order.ranks);
      EXPECT_EQ(action_count(*after), action_count(order));
    }
  }
}

TEST(PricedMoves, NeverContradictDataWithinARank) {
  const JointProblem problem = sample_orders({0.05, 0.05}, 4);
  const schedule::Schedule order = schedule::zb_v_schedule(2, 4);
  const OrderSolution solution = OrderRater(problem).solve(order, 1e3);
  for (const OrderMove& move : priced_moves(order, solution, 1000)) {
    for (const auto& [rank, place] : move.exchanges) {
      const schedule::Action& first = order.ranks[rank][place];
      const schedule::Action& second = order.ranks[rank][place + 1];
      EXPECT_FALSE(first.stage == second.stage && first.microbatch == second.microbatch);
    }
  }
}

}  // namespace
}  // namespace lowgear::joint
