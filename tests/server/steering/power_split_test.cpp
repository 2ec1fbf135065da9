#include "server/steering/power_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ClpSimplex.hpp>
#include <CoinPackedMatrix.hpp>
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear::server {

namespace {

using testing::HasSubstr;

constexpr double kForever = 1e9;

/// 1000 W at full speed, 700 W at 1.1 s, 600 W at 1.25 s.
const std::vector<CurvePoint> kVertices = {{1.0, 1000}, {1.1, 770}, {1.25, 750}};

TEST(PowerCurve, IsEnergyOverTimeOnTheLinesBetweenVertices) {
  const PowerCurve curve(kVertices, kForever);
  EXPECT_DOUBLE_EQ(curve.most_w(), 1000);
  EXPECT_DOUBLE_EQ(curve.least_w(), 600);
  EXPECT_NEAR(curve.power_w(1.05), 885 / 1.05, 1e-9);
  EXPECT_DOUBLE_EQ(curve.power_w(0.5), 1000);
  EXPECT_DOUBLE_EQ(curve.power_w(9), 600);
}

TEST(PowerCurve, GivesTheShortestTimeWithAPower) {
  const PowerCurve curve(kVertices, kForever);
  for (double time_s = 1; time_s <= 1.25; time_s += 0.01)
    EXPECT_NEAR(curve.time_s(curve.power_w(time_s)), time_s, 1e-12);
  EXPECT_DOUBLE_EQ(curve.time_s(2000), 1);
  EXPECT_DOUBLE_EQ(curve.time_s(100), 1.25);
}

TEST(PowerCurve, EndsAtTheSlowestTimeAllowed) {
  const PowerCurve curve(kVertices, 1.05);
  EXPECT_DOUBLE_EQ(curve.slowest_s(), 1.05);
  EXPECT_NEAR(curve.least_w(), 885 / 1.05, 1e-9);
  EXPECT_DOUBLE_EQ(PowerCurve(kVertices, 0.5).slowest_s(), 1);
}

TEST(PowerCurve, HasNoBetterTimeForAPrice) {
  const PowerCurve curve(kVertices, kForever);
  for (double price = 1e-6; price < 1; price *= 1.7) {
    const auto cost = [&](double time_s) { return 3 * time_s + price * curve.power_w(time_s); };
    const double best_s = curve.best_time_s(3, price);
    for (double time_s = 1; time_s <= 1.25; time_s += 1e-4) EXPECT_LE(cost(best_s), cost(time_s) + 1e-12) << price;
  }
  EXPECT_DOUBLE_EQ(curve.best_time_s(3, 0), 1);
}

TEST(PowerCurve, OfOneVertexStandsStill) {
  const PowerCurve curve(std::vector<CurvePoint>{{2, 500}}, kForever);
  EXPECT_DOUBLE_EQ(curve.best_time_s(1, 5), 2);
  EXPECT_DOUBLE_EQ(curve.power_w(3), 250);
  EXPECT_DOUBLE_EQ(curve.time_s(1), 2);
}

TEST(PowerCurve, RefusesWhatIsNoFrontier) {
  const auto refusal = [](std::vector<CurvePoint> vertices) {
    return error_of([&] { (void)PowerCurve(vertices, kForever); });
  };
  EXPECT_THAT(refusal({}), HasSubstr("without vertices"));
  EXPECT_THAT(refusal({{1, 0}}), HasSubstr("vertex 0 of the frontier: 1 s and 0 J"));
  EXPECT_THAT(refusal({{1, 10}, {1, 9}}), HasSubstr("vertex 1 of the frontier: 1 s does not exceed"));
  EXPECT_THAT(refusal({{1, 10}, {2, 11}}), HasSubstr("energies must fall"));
  EXPECT_THAT(refusal({{1, 10}, {2, 9}, {3, 7}}), HasSubstr("vertex 2 of the frontier: energies must fall"));
}

PowerCurve curve(double scale = 1) {
  return {std::vector<CurvePoint>{{1.0, 1000 * scale}, {1.1, 770 * scale}, {1.25, 750 * scale}}, 10};
}

BudgetJob job(double scale, double weight, std::vector<BudgetShare> budgets) {
  return {.curve = curve(scale), .weight = weight, .budgets = std::move(budgets)};
}

/// Vertices as planners make them: energies fall ever more slowly.
PowerCurve random_curve(std::mt19937& random) {
  std::uniform_real_distribution<double> share(0, 1);
  const double fastest_s = 0.5 + 20 * share(random);
  const double most_w = 1000 + 50'000 * share(random);
  std::vector<CurvePoint> vertices = {{fastest_s, fastest_s * most_w}};
  double slope_w = most_w * (1 + 4 * share(random));
  const int count = 1 + static_cast<int>(12 * share(random));
  for (int i = 0; i < count; ++i) {
    const CurvePoint& last = vertices.back();
    const double step_s = fastest_s * 0.05 * (0.05 + share(random));
    if (last.energy_j - slope_w * step_s < 0.4 * vertices.front().energy_j) break;
    vertices.push_back({last.time_s + step_s, last.energy_j - slope_w * step_s});
    slope_w *= 0.3 + 0.69 * share(random);
  }
  return {vertices, fastest_s * (1 + 0.02 + 0.5 * share(random))};
}

struct Fleet {
  std::vector<BudgetJob> jobs;
  std::vector<BudgetPower> budgets;
};

/// A cluster of rows of nodes; jobs lie on one node or on several, and draw from the rows of these and from the
/// cluster.
Fleet random_fleet(unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> share(0, 1);
  const auto below = [&](std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random); };
  const std::size_t rows = 1 + below(3);
  const std::size_t nodes = rows * (1 + below(4));
  Fleet fleet;
  fleet.budgets.push_back({"cluster"});
  for (std::size_t row = 0; row < rows; ++row) fleet.budgets.push_back({"row " + std::to_string(row)});
  for (std::size_t node = 0; node < nodes; ++node) fleet.budgets.push_back({"node " + std::to_string(node)});
  const std::size_t jobs = 1 + below(20);
  for (std::size_t i = 0; i < jobs; ++i) {
    const std::size_t spread = 1 + below(nodes);
    const std::size_t first = below(nodes - spread + 1);
    std::vector<double> of_row(rows);
    std::vector<BudgetShare> parts = {{0, 1}};
    for (std::size_t node = first; node < first + spread; ++node) {
      parts.push_back({1 + rows + node, 1 / static_cast<double>(spread)});
      of_row[node % rows] += 1 / static_cast<double>(spread);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      if (of_row[row] > 0) parts.push_back({1 + row, std::min(1.0, of_row[row])});
    }
    fleet.jobs.push_back({.curve = random_curve(random), .weight = 0.1 + 3 * share(random), .budgets = parts});
  }
  for (std::size_t budget = 0; budget < fleet.budgets.size(); ++budget) {
    double least_w = 0;
    double most_w = 0;
    for (const BudgetJob& one : fleet.jobs) {
      for (const BudgetShare& part : one.budgets) {
        if (part.budget != budget) continue;
        least_w += part.share * one.curve.least_w();
        most_w += part.share * one.curve.most_w();
      }
    }
    fleet.budgets[budget].other_w = 500 * share(random);
    // Now and then of no effect.
    fleet.budgets[budget].watts =
        fleet.budgets[budget].other_w + 1 + least_w + 1.2 * share(random) * (most_w - least_w);
  }
  return fleet;
}

/// The least loss by Clp: each job is a mix of times on its frontier, whose powers are chords of the curve and so a
/// little too high; with this many the loss is too high by less than 1e-4 of it.
double loss_by_linear_program(const Fleet& fleet) {
  constexpr int kTimes = 600;
  std::vector<int> rows;
  std::vector<int> columns;
  std::vector<double> elements;
  std::vector<double> cost;
  const int budgets = static_cast<int>(fleet.budgets.size());
  for (std::size_t j = 0; j < fleet.jobs.size(); ++j) {
    const BudgetJob& one = fleet.jobs[j];
    for (int i = 0; i <= kTimes; ++i) {
      const double time_s =
          one.curve.fastest_s() + (one.curve.slowest_s() - one.curve.fastest_s()) * i / static_cast<double>(kTimes);
      const int column = static_cast<int>(cost.size());
      cost.push_back(one.weight * (time_s / one.curve.fastest_s() - 1));
      const auto add = [&](int row, double value) {
        rows.push_back(row);
        columns.push_back(column);
        elements.push_back(value);
      };
      for (const BudgetShare& part : one.budgets) {
        add(static_cast<int>(part.budget), part.share * one.curve.power_w(time_s) / 1000);
      }
      add(budgets + static_cast<int>(j), 1);
    }
  }
  std::vector<double> row_lower(fleet.budgets.size(), -COIN_DBL_MAX);
  std::vector<double> row_upper;
  for (const BudgetPower& budget : fleet.budgets) row_upper.push_back((budget.watts - budget.other_w) / 1000);
  row_lower.resize(fleet.budgets.size() + fleet.jobs.size(), 1);
  row_upper.resize(fleet.budgets.size() + fleet.jobs.size(), 1);
  const CoinPackedMatrix matrix(true, rows.data(), columns.data(), elements.data(),
                                static_cast<CoinBigIndex>(elements.size()));
  const std::vector<double> lower(cost.size(), 0);
  const std::vector<double> upper(cost.size(), 1);
  ClpSimplex simplex;
  simplex.setLogLevel(0);
  simplex.loadProblem(matrix, lower.data(), upper.data(), cost.data(), row_lower.data(), row_upper.data());
  simplex.dual();
  EXPECT_EQ(simplex.status(), 0);
  return simplex.objectiveValue();
}

TEST(SplitPower, LeavesJobsAloneWhereThereIsEnough) {
  const PowerSplit split = split_power(std::vector{job(1, 1, {{0, 1}}), job(2, 1, {{0, 1}})},
                                       std::vector<BudgetPower>{{"cluster", 3500, 400}});
  EXPECT_DOUBLE_EQ(split.loss, 0);
  EXPECT_DOUBLE_EQ(split.jobs[1].power_w, 2000);
  EXPECT_DOUBLE_EQ(split.budgets[0].power_w, 3400);
  EXPECT_DOUBLE_EQ(split.budgets[0].price_per_w, 0);
}

TEST(SplitPower, GivesTheSameToJobsThatAreAlike) {
  const std::vector<BudgetJob> jobs = {job(1, 1, {{0, 1}}), job(1, 1, {{0, 1}})};
  const PowerSplit split = split_power(jobs, std::vector<BudgetPower>{{"cluster", 1600}});
  EXPECT_NEAR(split.jobs[0].power_w, 800, 1e-6);
  EXPECT_NEAR(split.jobs[0].time_s, split.jobs[1].time_s, 1e-12);
  EXPECT_NEAR(split.budgets[0].power_w, 1600, 1e-5);
}

TEST(SplitPower, SparesWhatWeighsMore) {
  const std::vector<BudgetJob> jobs = {job(1, 10, {{0, 1}}), job(1, 1, {{0, 1}})};
  const PowerSplit split = split_power(jobs, std::vector<BudgetPower>{{"cluster", 1700}});
  EXPECT_NEAR(split.jobs[0].power_w, 1000, 1e-6);
  EXPECT_NEAR(split.jobs[1].power_w, 700, 1e-5);
}

TEST(SplitPower, KeepsABudgetThatBindsOnlyForSome) {
  // The first node is tight, the second one is not; the cluster is not.
  const std::vector<BudgetJob> jobs = {job(1, 1, {{0, 1}, {1, 1}}), job(1, 1, {{0, 1}, {2, 1}})};
  const PowerSplit split =
      split_power(jobs, std::vector<BudgetPower>{{"cluster", 5000}, {"node 0", 700}, {"node 1", 5000}});
  EXPECT_NEAR(split.jobs[0].power_w, 700, 1e-6);
  EXPECT_DOUBLE_EQ(split.jobs[1].power_w, 1000);
  EXPECT_GT(split.budgets[1].price_per_w, 0);
  EXPECT_DOUBLE_EQ(split.budgets[0].price_per_w, 0);
}

TEST(SplitPower, GivesTheLeastWhereABudgetCannotBeKept) {
  const std::vector<BudgetJob> jobs = {job(1, 1, {{0, 1}}), job(1, 1, {{1, 1}})};
  const std::vector<BudgetPower> budgets = {{"node 0", 650, 100}, {"node 1", 2000, 100}};
  const PowerSplit split = split_power(jobs, budgets);
  EXPECT_NEAR(split.jobs[0].power_w, 600, 1e-5);
  EXPECT_DOUBLE_EQ(split.jobs[1].power_w, 1000);
}

/// What a budget's jobs draw at their least power, and others.
double least_w(const Fleet& fleet, std::size_t budget) {
  double needed_w = fleet.budgets[budget].other_w;
  for (const BudgetJob& one : fleet.jobs) {
    for (const BudgetShare& part : one.budgets) {
      if (part.budget == budget) needed_w += part.share * one.curve.least_w();
    }
  }
  return needed_w;
}

/// A job with a floor has a curve that ends there, as the server makes it.
TEST(SplitPower, LosesNoMoreThanALinearProgramWithFloors) {
  int at_floor = 0;
  for (unsigned seed = 1'000; seed < 1'040; ++seed) {
    Fleet fleet = random_fleet(seed);
    std::mt19937 random(seed);
    std::vector<double> floors_w;
    for (BudgetJob& one : fleet.jobs) {
      const double share = random() % 2 == 0 ? 0 : 0.001 * static_cast<double>(random() % 1'000);
      floors_w.push_back(one.curve.least_w() + share * (one.curve.most_w() - one.curve.least_w()));
      one.curve = one.curve.with_floor(floors_w.back());
      EXPECT_NEAR(one.curve.least_w(), floors_w.back(), 1e-6 * floors_w.back());
    }
    // The linear program has no solution where there is no room for the floors.
    for (std::size_t budget = 0; budget < fleet.budgets.size(); ++budget) {
      const double needed_w = least_w(fleet, budget);
      if (needed_w > fleet.budgets[budget].watts) fleet.budgets[budget].watts = needed_w + 1;
    }
    const PowerSplit split = split_power(fleet.jobs, fleet.budgets);
    const double best = loss_by_linear_program(fleet);
    EXPECT_LE(split.loss, best * 1.001 + 1e-9) << seed;
    EXPECT_GE(split.loss, best * (1 - 1e-3) - 1e-9) << seed;
    for (std::size_t job = 0; job < fleet.jobs.size(); ++job) {
      EXPECT_GE(split.jobs[job].power_w, floors_w[job] * (1 - 1e-9)) << seed;
      at_floor += split.jobs[job].power_w < floors_w[job] * (1 + 1e-6) ? 1 : 0;
    }
  }
  EXPECT_GT(at_floor, 20);
}

TEST(SplitPower, RefusesWhatIsOutOfRange) {
  const std::vector<BudgetPower> budgets = {{"cluster", 1000}};
  const auto refusal = [&](const std::vector<BudgetJob>& jobs, const std::vector<BudgetPower>& some) {
    return error_of([&] { (void)split_power(jobs, some); });
  };
  EXPECT_THAT(refusal({job(1, 0, {})}, budgets), HasSubstr("job 0 has weight 0"));
  EXPECT_THAT(refusal({job(1, 1, {{1, 1}})}, budgets), HasSubstr("job 0: a share of 1 in budget 1"));
  EXPECT_THAT(refusal({job(1, 1, {{0, 1.5}})}, budgets), HasSubstr("a share of 1.5 in budget 0"));
  EXPECT_THAT(refusal({}, {{"row", 0}}), HasSubstr("budget row of 0 W"));
  EXPECT_THAT(refusal({}, {{"row", 10, -1}}), HasSubstr("with -1 W drawn by others"));
}

TEST(SplitPower, LosesNoMoreThanALinearProgramOnRandomFleets) {
  int binding = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Fleet fleet = random_fleet(seed);
    const PowerSplit split = split_power(fleet.jobs, fleet.budgets);
    const double best = loss_by_linear_program(fleet);
    EXPECT_LE(split.loss, best * 1.001 + 1e-9);
    EXPECT_GE(split.loss, best * (1 - 1e-3) - 1e-9);
    EXPECT_LE(split.least_loss, best + 1e-9);
    for (std::size_t budget = 0; budget < fleet.budgets.size(); ++budget) {
      EXPECT_LE(split.budgets[budget].power_w, fleet.budgets[budget].watts * (1 + 1e-9)) << fleet.budgets[budget].name;
    }
    binding += split.loss > 0 ? 1 : 0;
  }
  EXPECT_GE(binding, 100) << "too few fleets were short of power";
}

}  // namespace

}  // namespace lowgear::server
