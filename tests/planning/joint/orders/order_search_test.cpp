#include "planning/joint/orders/order_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "base/core/error_of.h"
#include "planning/joint/orders/candidate_orders.h"
#include "planning/joint/orders/sample_orders.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/planner/progress_log.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/generators.h"

namespace lowgear::joint {

namespace {

using ::testing::HasSubstr;

double middle_s(const OrderSearch& search) { return (search.fastest_s() + search.slowest_s()) / 2; }

void expect_legal(const JointProblem& problem, const schedule::Schedule& order) {
  ASSERT_EQ(error_of([&] { (void)build_dag(order); }), "no error") << order.name;
  ASSERT_EQ(order.microbatches, problem.microbatches);
  const std::vector<int> held = peak_in_flight_activations(order);
  const std::vector<int> most =
      most_activations(problem.memory, problem.ranks(), problem.microbatches, chunks_of(order));
  for (std::size_t rank = 0; rank < held.size(); ++rank) ASSERT_LE(held[rank], most[rank]) << order.name;
  if (order.rank_count() == 1) return;
  const auto run = [&] { require_runnable(with_communication(order), schedule::P2pGrouping::none); };
  ASSERT_EQ(error_of(run), "no error") << order.name;
}

TEST(OrderSearch, FindsOnlyOrdersThatFitMemoryAndCannotHang) {
  std::mt19937 random(3);
  for (int i = 0; i < 25; ++i) {
    const JointProblem problem = random_orders(random);
    OrderSearch search(problem);
    search.improve_at(search.fastest_s(), 30);
    search.improve_at(middle_s(search), 30);
    ASSERT_FALSE(search.orders().empty());
    for (const RatedOrder& order : search.orders()) expect_legal(problem, order.order);
  }
}

TEST(OrderSearch, ReportsWithinEverySolveSoThatAStopIsSoon) {
  const JointProblem problem = sample_orders({0.050, 0.056, 0.052, 0.050}, 256);
  constexpr std::size_t kSolves = 100;
  planner::StopsAfter counted(0);
  OrderSearch search(problem, 0, &counted);
  const int of_first_orders = counted.reports();
  const double deadline_s = middle_s(search);
  search.improve_at(deadline_s, kSolves);
  EXPECT_GE(of_first_orders, static_cast<int>(search.orders().size()));
  EXPECT_GE(counted.reports() - of_first_orders, 5) << "of 100 solves, each of many steps";
  for (const int last : {1, of_first_orders / 2, of_first_orders}) {
    planner::StopsAfter stop(last);
    EXPECT_THROW(OrderSearch(problem, 0, &stop), Stopped);
    EXPECT_EQ(stop.reports(), last);
  }
  planner::StopsAfter stop(of_first_orders + 3);
  OrderSearch stopped(problem, 0, &stop);
  EXPECT_THROW(stopped.improve_at(deadline_s, kSolves), Stopped);
  EXPECT_EQ(stop.reports(), of_first_orders + 3);
}

TEST(OrderSearch, IsNeverAboveAScheduleThatFits) {
  std::mt19937 random(4);
  for (int i = 0; i < 20; ++i) {
    const JointProblem problem = random_orders(random);
    const OrderSearch search(problem);
    for (const schedule::Schedule& order : known_orders(problem)) {
      const OrderCurve curve = OrderRater(problem).rate(order);
      for (const auto& point : curve.points) {
        const RatedOrder& best = search.orders()[search.best_at(point.time_s)];
        EXPECT_LE(best.curve.energy_j_at(point.time_s), point.energy_j * (1 + 1e-12)) << order.name;
      }
    }
  }
}

TEST(OrderSearch, RatesAnOrderWithinAThousandthOfItsExactFrontier) {
  std::mt19937 random(5);
  for (int i = 0; i < 12; ++i) {
    const JointProblem problem = random_orders(random);
    const OrderSearch search(problem);
    for (const RatedOrder& order : search.orders()) {
      const planner::PipelinePlanner exact(order.order, problem.profile_of(order.order), problem.blocking_power_w, {});
      EXPECT_EQ(ps_from_s(order.curve.fastest_s()), ps_from_s(exact.fastest_s()));
      for (const auto& point : order.curve.points) {
        const double exact_j = exact.frontier().energy_j_at(ps_from_s(point.time_s));
        EXPECT_GE(point.energy_j, exact_j * (1 - 1e-9));
        EXPECT_LE(point.energy_j, exact_j * 1.001);
      }
    }
  }
}

TEST(OrderSearch, AnImprovementNeverLosesAndStatesWhatItSolves) {
  const JointProblem problem = sample_orders({0.05, 0.056, 0.052, 0.05}, 8, {.microbatches = {4}});
  OrderSearch search(problem);
  const double deadline_s = middle_s(search);
  const double before_j = search.orders()[search.best_at(deadline_s)].curve.energy_j_at(deadline_s);
  search.improve_at(deadline_s, 60);
  const RatedOrder& after = search.orders()[search.best_at(deadline_s)];
  EXPECT_LE(after.curve.energy_j_at(deadline_s), before_j);
  EXPECT_NEAR(OrderRater(problem).solve(after.order, deadline_s).energy_j, after.curve.energy_j_at(deadline_s),
              1e-3 * before_j);
}

TEST(OrderSearch, IsTheSameEachTime) {
  const JointProblem problem = sample_orders({0.05, 0.06, 0.05}, 6);
  OrderSearch one(problem);
  OrderSearch other(problem);
  for (OrderSearch* search : {&one, &other}) search->improve_at(middle_s(*search), 40);
  ASSERT_EQ(one.orders().size(), other.orders().size());
  for (std::size_t i = 0; i < one.orders().size(); ++i) {
    EXPECT_EQ(one.orders()[i].order.ranks, other.orders()[i].order.ranks);
  }
}

/// All merges of a rank's forwards, input and weight gradients, each in turn of the microbatches.
void merge_all(int rank, int microbatches, std::vector<int> next, std::vector<schedule::Action>& made,
               std::vector<std::vector<schedule::Action>>& all) {
  constexpr OpKind kKinds[] = {OpKind::forward, OpKind::input_gradient, OpKind::weight_gradient};
  if (made.size() == 3 * static_cast<std::size_t>(microbatches)) {
    all.push_back(made);
    return;
  }
  for (std::size_t kind = 0; kind < 3; ++kind) {
    if (next[kind] == microbatches || (kind > 0 && next[kind] == next[kind - 1])) continue;
    made.push_back({schedule::ActionKind::compute, kKinds[kind], rank, next[kind]});
    ++next[kind];
    merge_all(rank, microbatches, next, made, all);
    --next[kind];
    made.pop_back();
  }
}

std::vector<std::vector<schedule::Action>> all_of_rank(int rank, int microbatches) {
  std::vector<std::vector<schedule::Action>> all;
  std::vector<schedule::Action> made;
  merge_all(rank, microbatches, {0, 0, 0}, made, all);
  return all;
}

/// The least energy of any order with one stage a rank, by trying them all.
double least_energy_j(const JointProblem& problem, double deadline_s) {
  double least_j = std::numeric_limits<double>::infinity();
  const OrderRater rater(problem);
  for (const auto& first : all_of_rank(0, problem.microbatches)) {
    for (const auto& second : all_of_rank(1, problem.microbatches)) {
      const schedule::Schedule order{"all", 2, problem.microbatches, {first, second}};
      if (!can_run(order) || !problem.fits(order)) continue;
      least_j = std::min(least_j, rater.solve(order, deadline_s).energy_j);
    }
  }
  return least_j;
}

TEST(OrderSearch, FindsTheBestOfAllOrdersOfTwoRanks) {
  for (const MemoryLimit& memory : {MemoryLimit{}, MemoryLimit{{1}}, MemoryLimit{{2}}}) {
    for (const auto& forward_s : {std::vector{0.05, 0.05}, {0.05, 0.06}, {0.06, 0.05}}) {
      const JointProblem problem = sample_orders(forward_s, 2, memory);
      OrderSearch search(problem);
      for (const double share : {0.1, 0.5, 0.9}) {
        const double deadline_s = search.fastest_s() + share * (search.slowest_s() - search.fastest_s());
        const double least_j = least_energy_j(problem, deadline_s);
        search.improve_at(deadline_s, 200);
        const double found_j = search.orders()[search.best_at(deadline_s)].curve.energy_j_at(deadline_s);
        EXPECT_LE(found_j, least_j * 1.001) << to_string(memory) << ' ' << forward_s[0] << ' ' << share;
      }
    }
  }
}

TEST(OrderSearch, KeepsFewOrdersThatAreGoodEverywhere) {
  const OrderSearch search(sample_orders({0.05, 0.056, 0.05}, 6, {.microbatches = {6}}));
  std::vector<double> deadlines;
  for (int i = 0; i <= 10; ++i) {
    deadlines.push_back(search.fastest_s() + 0.1 * i * (search.slowest_s() - search.fastest_s()));
  }
  const std::vector<std::size_t> few = search.few_for(deadlines, 1e-3);
  ASSERT_FALSE(few.empty());
  for (const double deadline_s : deadlines) {
    double energy_j = std::numeric_limits<double>::infinity();
    for (const std::size_t i : few) energy_j = std::min(energy_j, search.orders()[i].curve.energy_j_at(deadline_s));
    EXPECT_LE(energy_j, search.orders()[search.best_at(deadline_s)].curve.energy_j_at(deadline_s) * 1.001);
  }
}

TEST(OrderSearch, RefusesStagesThatAreNotTrained) {
  profile::StageProfile profile(2);
  profile.add(0, OpKind::forward, {1000, 0.05, 5});
  profile.add(1, OpKind::forward, {1000, 0.05, 5});
  profile.add(1, OpKind::backward, {1000, 0.1, 10});
  const JointProblem problem{.profile = profile, .blocking_power_w = {80, 80}, .microbatches = 4};
  EXPECT_THAT(error_of([&] { OrderSearch search(problem); }), HasSubstr("train every stage"));
}

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
