#include "planning/profile/regression/non_negative_least_squares.h"

#include <gtest/gtest.h>

#include <random>

namespace lowgear::profile {
namespace {

struct Problem {
  Eigen::MatrixXd a;
  Eigen::VectorXd b;

  [[nodiscard]] NonNegativeSolution solve() const { return solve_non_negative(a.transpose() * a, a.transpose() * b); }
  [[nodiscard]] double squares(const Eigen::VectorXd& x) const { return (a * x - b).squaredNorm(); }
};

Problem random_problem(std::mt19937_64& random, Eigen::Index rows, Eigen::Index columns) {
  std::normal_distribution<double> normal;
  Problem problem{Eigen::MatrixXd(rows, columns), Eigen::VectorXd(rows)};
  for (double& value : problem.a.reshaped()) value = normal(random);
  for (double& value : problem.b) value = normal(random);
  return problem;
}

/// The least sum of squares over every choice of which unknowns are zero.
double least_squares_by_enumeration(const Problem& problem) {
  const Eigen::Index columns = problem.a.cols();
  double best = problem.b.squaredNorm();
  for (unsigned mask = 1; mask < (1U << columns); ++mask) {
    std::vector<Eigen::Index> free;
    for (Eigen::Index i = 0; i < columns; ++i) {
      if ((mask >> i & 1U) != 0) free.push_back(i);
    }
    const Eigen::MatrixXd part = problem.a(Eigen::all, free);
    const Eigen::VectorXd x = part.colPivHouseholderQr().solve(problem.b);
    if (x.minCoeff() >= 0) best = std::min(best, (part * x - problem.b).squaredNorm());
  }
  return best;
}

/// Karush-Kuhn-Tucker: x >= 0, gradient >= 0, and one of the two is zero everywhere.
void expect_optimal(const Problem& problem, const Eigen::VectorXd& x) {
  const Eigen::VectorXd gradient = problem.a.transpose() * (problem.a * x - problem.b);
  const double tolerance = 1e-8 * (1 + problem.a.norm() * problem.b.norm());
  EXPECT_GE(x.minCoeff(), 0);
  EXPECT_GE(gradient.minCoeff(), -tolerance);
  EXPECT_LE(x.cwiseProduct(gradient).cwiseAbs().maxCoeff(), tolerance * (1 + x.maxCoeff()));
}

TEST(NonNegativeLeastSquares, EqualsTryingEveryActiveSet) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 1000; ++round) {
    const Eigen::Index columns = 1 + round % 7;
    const Problem problem = random_problem(random, columns + round % 5, columns);
    const NonNegativeSolution found = problem.solve();
    ASSERT_TRUE(found.converged);
    ASSERT_NEAR(problem.squares(found.values), least_squares_by_enumeration(problem), 1e-8) << round;
    expect_optimal(problem, found.values);
  }
}

TEST(NonNegativeLeastSquares, HoldsItsConditionsOnLargeProblemsOfUnequalScale) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-4, 4);
  for (int round = 0; round < 10; ++round) {
    Problem problem = random_problem(random, 150, 100);
    Eigen::VectorXd scale(100);
    for (double& value : scale) value = std::pow(10, exponent(random));
    const Problem scaled{problem.a * scale.asDiagonal(), problem.b};
    const NonNegativeSolution found = scaled.solve();
    ASSERT_TRUE(found.converged);
    // In the units of the unscaled problem, where one tolerance fits all.
    expect_optimal(problem, found.values.cwiseProduct(scale));
  }
}

TEST(NonNegativeLeastSquares, RecoversAPositiveSolutionExactly) {
  std::mt19937_64 random(11);
  Problem problem = random_problem(random, 40, 10);
  const Eigen::VectorXd truth = Eigen::VectorXd::LinSpaced(10, 1, 10);
  problem.b = problem.a * truth;
  EXPECT_LT((problem.solve().values - truth).cwiseAbs().maxCoeff(), 1e-9);
}

TEST(NonNegativeLeastSquares, StopsOnColumnsThatAreEqualOrZero) {
  std::mt19937_64 random(13);
  for (int round = 0; round < 200; ++round) {
    Problem problem = random_problem(random, 12, 6);
    problem.a.col(3) = problem.a.col(1);
    problem.a.col(4).setZero();
    problem.a.col(5) = problem.a.col(0) + problem.a.col(1);
    const NonNegativeSolution found = problem.solve();
    ASSERT_TRUE(found.converged);
    EXPECT_EQ(found.values(4), 0);
    ASSERT_NEAR(problem.squares(found.values), least_squares_by_enumeration(problem), 1e-6) << round;
  }
}

TEST(NonNegativeLeastSquares, IsZeroWhereEverythingPointsDown) {
  const Problem problem{Eigen::MatrixXd::Identity(3, 3), Eigen::VectorXd::Constant(3, -1)};
  EXPECT_EQ(problem.solve().values, Eigen::VectorXd::Zero(3));
  EXPECT_EQ(solve_non_negative(Eigen::MatrixXd(0, 0), Eigen::VectorXd(0)).values.size(), 0);
}

}  // namespace
}  // namespace lowgear::profile
