#pragma once

#include <Eigen/Dense>

namespace lowgear::profile {

/// Minimises |A x - b|^2 over x >= 0.
struct NonNegativeSolution {
  Eigen::VectorXd values;
  /// False where the iteration limit ended the search: `values` is then feasible, but not proven optimal.
  bool converged = true;
};

/// The active-set method of Lawson and Hanson (Solving Least Squares Problems, 1974, chapter 23) in the form of Bro and
/// de Jong (J. Chemometrics 11, 1997), which needs only `gram` = A^T A (symmetric, positive semidefinite) and `rhs` =
/// A^T b. Unknowns are scaled to a unit diagonal first; one whose diagonal is 0 stays 0. For up to about a thousand
/// unknowns: dense, cubic in the number of positive ones. All values must be finite.
[[nodiscard]] NonNegativeSolution solve_non_negative(const Eigen::MatrixXd& gram, const Eigen::VectorXd& rhs);

}  // namespace lowgear::profile
