#include "planning/joint/bound/order_free_bound.h"

#include <gtest/gtest.h>

#include <ClpSimplex.hpp>
#include <CoinPackedMatrix.hpp>
#include <algorithm>
#include <limits>
#include <optional>
#include <random>

#include "planning/joint/bound/random_orders.h"
#include "planning/planner/frontier/frontier.h"
#include "planning/planner/planners/planning_model.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"

namespace lowgear::joint {
namespace {

/// By virtual stage; those of a rank alike. Each op has one to six clocks.
profile::StageProfile random_profile(const OrderFreedom& freedom, std::mt19937& random) {
  std::uniform_real_distribution<double> share(0, 1);
  profile::StageProfile profile(static_cast<int>(freedom.rank_of_stage.size()));
  for (int rank = 0; rank < freedom.ranks(); ++rank) {
    for (const OpKind kind : freedom.kinds()) {
      const double work_s = 0.01 + 0.01 * share(random);
      const int clocks = 1 + static_cast<int>(random() % 6);
      for (int clock = 0; clock < clocks; ++clock) {
        const double speed = 1 - 0.1 * clock;
        const profile::Measurement measured{1000 - 100 * clock, work_s / speed,
                                            work_s / speed * (100 + 300 * speed * speed * (1 + 0.1 * share(random)))};
        for (std::size_t stage = 0; stage < freedom.rank_of_stage.size(); ++stage) {
          if (freedom.rank_of_stage[stage] == rank) profile.add(static_cast<int>(stage), kind, measured);
        }
      }
    }
  }
  return profile;
}

struct Sample {
  OrderFreedom freedom;
  profile::StageProfile profile;
  std::vector<double> blocking_power_w;

  [[nodiscard]] OrderFreeProblem problem() const { return order_free_problem(freedom, profile, blocking_power_w); }
  [[nodiscard]] planner::Frontier frontier(const schedule::Schedule& order) const {
    return planner::solve_frontier(planner::make_planning_model(build_dag(order), profile, blocking_power_w).instance);
  }
  [[nodiscard]] double bound_j(TimePs deadline_ps) const {
    const OrderFreeProblem relaxed = problem();
    const TimePs least_ps = least_time_ps(relaxed);
    const auto prices = best_prices(relaxed, std::max(deadline_ps, least_ps + least_ps / 10000));
    return lower_bound_j(bound_of_prices(relaxed, prices), relaxed.blocking_power_nw, deadline_ps);
  }
};

Sample random_sample(std::mt19937& random, int most_microbatches) {
  Sample sample{random_freedom(random, most_microbatches), {}, {}};
  sample.profile = random_profile(sample.freedom, random);
  for (int rank = 0; rank < sample.freedom.ranks(); ++rank) {
    sample.blocking_power_w.push_back(static_cast<double>(random() % 100));
  }
  return sample;
}

int weight_of_op(const UnavoidablePath& path, std::size_t group, int m) {
  std::vector<int> weights;
  for (const WeightedOps& some : path.ops[group]) weights.insert(weights.end(), some.ops, some.weight);
  return static_cast<std::size_t>(m) < weights.size() ? weights[static_cast<std::size_t>(m)] : 0;
}

/// The relaxation as a linear program, solved by Clp: the time of op m of each group is its fastest plus parts of the
/// pieces of its cost, and each path has the first ops of each group, by falling weight.
double least_relaxed_j(const OrderFreeProblem& problem, TimePs deadline_ps) {
  constexpr double kPsPerMs = 1e9;
  std::vector<double> upper;
  std::vector<double> cost;
  std::vector<int> row_of;
  std::vector<int> column_of;
  std::vector<double> element;
  std::vector<double> row_upper(problem.paths.size(), 0);
  double fixed_j = 0;
  const auto add = [&](std::size_t row, double value) {
    row_of.push_back(static_cast<int>(row));
    column_of.push_back(static_cast<int>(cost.size()) - 1);
    element.push_back(value);
  };
  for (std::size_t group = 0; group < problem.cost_of_group.size(); ++group) {
    const planner::ConvexCost& op_cost = problem.cost_of_group[group];
    fixed_j += problem.ops_of_a_group * j_from_zj(op_cost.energy_at_fastest_zj);
    for (std::size_t path = 0; path < problem.paths.size(); ++path) {
      for (int m = 0; m < problem.ops_of_a_group; ++m) {
        row_upper[path] -=
            weight_of_op(problem.paths[path], group, m) * static_cast<double>(op_cost.fastest_ps()) / kPsPerMs;
      }
    }
    for (int m = 0; m < problem.ops_of_a_group; ++m) {
      for (std::size_t piece = 0; piece < op_cost.slope_nw.size(); ++piece) {
        upper.push_back(static_cast<double>(op_cost.time_ps[piece + 1] - op_cost.time_ps[piece]) / kPsPerMs);
        cost.push_back(-w_from_nw(op_cost.slope_nw[piece]) / 1000);
        for (std::size_t path = 0; path < problem.paths.size(); ++path) {
          if (const int weight = weight_of_op(problem.paths[path], group, m)) add(path, weight);
        }
      }
    }
  }
  upper.push_back(static_cast<double>(deadline_ps) / kPsPerMs);  // the iteration's time
  cost.push_back(w_from_nw(problem.blocking_power_nw) / 1000);
  for (std::size_t path = 0; path < problem.paths.size(); ++path) add(path, -problem.paths[path].parallel);
  ClpSimplex simplex;
  simplex.setLogLevel(0);
  const CoinPackedMatrix matrix(true, row_of.data(), column_of.data(), element.data(),
                                static_cast<CoinBigIndex>(element.size()));
  const std::vector<double> lower(cost.size(), 0);
  const std::vector<double> row_lower(row_upper.size(), -COIN_DBL_MAX);
  simplex.loadProblem(matrix, lower.data(), upper.data(), cost.data(), row_lower.data(), row_upper.data());
  simplex.primal();
  EXPECT_EQ(simplex.status(), 0);
  return fixed_j + simplex.objectiveValue();
}

TEST(OrderFreeBound, IsBelowTheFrontierOfEveryOrder) {
  std::mt19937 random(11);
  int orders = 0;
  for (int i = 0; i < 400; ++i) {
    const Sample sample = random_sample(random, 5);
    const std::optional<schedule::Schedule> order = random_order(sample.freedom, random);
    if (!order) continue;
    ++orders;
    const planner::Frontier frontier = sample.frontier(*order);
    ASSERT_GE(frontier.fastest_ps(), least_time_ps(sample.problem()));
    const TimePs room_ps = frontier.slowest_ps() - frontier.fastest_ps();
    for (const int part : {0, 1, 3, 4}) {
      const TimePs time_ps = frontier.fastest_ps() + room_ps * part / 3;  // also beyond the least energy
      EXPECT_LE(sample.bound_j(time_ps), frontier.energy_j_at(time_ps) * (1 + 1e-12)) << i << ", part " << part;
    }
  }
  EXPECT_GT(orders, 200);
}

TEST(OrderFreeBound, IsNearlyTheRelaxationsOptimum) {
  std::mt19937 random(12);
  for (int i = 0; i < 200; ++i) {
    const Sample sample = random_sample(random, 6);
    const OrderFreeProblem problem = sample.problem();
    const TimePs least_ps = least_time_ps(problem);
    for (const double factor : {1.002, 1.05, 1.2, 1.6}) {
      const auto time_ps = static_cast<TimePs>(static_cast<double>(least_ps) * factor);
      const double optimum_j = least_relaxed_j(problem, time_ps);
      const double bound_j = sample.bound_j(time_ps);
      EXPECT_LE(bound_j, optimum_j + 1e-9 * std::abs(optimum_j)) << i;
      EXPECT_GE(bound_j, optimum_j - 3e-4 * std::abs(optimum_j)) << i << ", factor " << factor;
    }
  }
}

/// All prices prove something, also bad ones.
TEST(OrderFreeBound, HoldsForAnyPrices) {
  std::mt19937 random(13);
  for (int i = 0; i < 200; ++i) {
    const Sample sample = random_sample(random, 4);
    const std::optional<schedule::Schedule> order = random_order(sample.freedom, random);
    if (!order) continue;
    const OrderFreeProblem problem = sample.problem();
    std::vector<PowerNw> price_nw;
    for (std::size_t path = 0; path < problem.paths.size(); ++path) {
      price_nw.push_back(random() % 2 == 0 ? 0 : nw_from_w(static_cast<double>(random() % 1000)));
    }
    const planner::Frontier frontier = sample.frontier(*order);
    const planner::BoundLine line = bound_of_prices(problem, price_nw);
    for (const TimePs time_ps : {frontier.fastest_ps(), frontier.slowest_ps()}) {
      EXPECT_LE(lower_bound_j(line, problem.blocking_power_nw, time_ps), frontier.energy_j_at(time_ps)) << i;
    }
  }
}

/// Two ranks and two microbatches: all orders there are, so that the optimum is known.
TEST(OrderFreeBound, IsCloseToTheOptimumOfAllOrdersOfASmallPipeline) {
  std::mt19937 random(14);
  double largest_gap = 0;
  for (int i = 0; i < 20; ++i) {
    Sample sample{{.rank_of_stage = {0, 1}, .most_activations = {2, 1}, .microbatches = 2}, {}, {40, 40}};
    sample.profile = random_profile(sample.freedom, random);
    std::vector<planner::Frontier> frontiers;
    for (int trial = 0; trial < 200; ++trial) {
      if (const auto order = random_order(sample.freedom, random)) frontiers.push_back(sample.frontier(*order));
    }
    const TimePs least_ps = std::ranges::min(frontiers, {}, &planner::Frontier::fastest_ps).fastest_ps();
    for (const double factor : {1.0, 1.05, 1.2}) {
      const auto time_ps = static_cast<TimePs>(static_cast<double>(least_ps) * factor);
      double best_j = std::numeric_limits<double>::infinity();
      for (const planner::Frontier& frontier : frontiers) {
        if (frontier.fastest_ps() <= time_ps) best_j = std::min(best_j, frontier.energy_j_at(time_ps));
      }
      const double bound_j = sample.bound_j(time_ps);
      EXPECT_LE(bound_j, best_j * (1 + 1e-12));
      largest_gap = std::max(largest_gap, best_j / bound_j - 1);
    }
  }
  EXPECT_LT(largest_gap, 0.2) << "of so few microbatches, whose first and last ones cost most";
}

}  // namespace
}  // namespace lowgear::joint
