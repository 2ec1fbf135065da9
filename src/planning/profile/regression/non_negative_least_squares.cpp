#include "planning/profile/regression/non_negative_least_squares.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lowgear::profile {
namespace {

/// Relative to the scaled right-hand side: gradients below are rounding.
constexpr double kGradientTolerance = 1e-11;

/// The search, on unknowns scaled to a unit diagonal.
class ActiveSetSearch {
 public:
  ActiveSetSearch(const Eigen::MatrixXd& gram, const Eigen::VectorXd& rhs)
      : gram_(gram),
        rhs_(rhs),
        tolerance_(kGradientTolerance * std::max(rhs.cwiseAbs().maxCoeff(), 1e-300)),
        values_(Eigen::VectorXd::Zero(rhs.size())),
        is_free_(static_cast<std::size_t>(rhs.size()), false),
        is_refused_(static_cast<std::size_t>(rhs.size()), false) {}

  [[nodiscard]] NonNegativeSolution run() {
    // Lawson and Hanson terminate in a finite number of steps, in practice in about as many as there are unknowns.
    const Eigen::Index limit = 10 * rhs_.size() + 10;
    for (Eigen::Index step = 0; step < limit; ++step) {
      const Eigen::Index entering = steepest();
      if (entering < 0) return {values_, true};
      enter(entering);
    }
    return {values_, false};
  }

 private:
  /// The unknown at zero whose growth lowers the sum of squares most; -1 when none does.
  [[nodiscard]] Eigen::Index steepest() const {
    const Eigen::VectorXd descent = rhs_ - gram_ * values_;
    Eigen::Index best = -1;
    for (Eigen::Index i = 0; i < descent.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (is_free_[at] || is_refused_[at] || gram_(i, i) <= 0 || descent(i) <= tolerance_) continue;
      if (best < 0 || descent(i) > descent(best)) best = i;
    }
    return best;
  }

  void enter(Eigen::Index entering) {
    is_free_[static_cast<std::size_t>(entering)] = true;
    Eigen::VectorXd target = unconstrained();
    if (!(target(entering) > 0)) {
      // Only rounding can make it so (the gradient says that it grows): what depends on others is left at zero.
      is_free_[static_cast<std::size_t>(entering)] = false;
      is_refused_[static_cast<std::size_t>(entering)] = true;
      return;
    }
    while (!move_towards(target)) target = unconstrained();
    std::fill(is_refused_.begin(), is_refused_.end(), false);
  }

  /// Least squares over the free unknowns alone; the others are zero.
  [[nodiscard]] Eigen::VectorXd unconstrained() const {
    std::vector<Eigen::Index> free;
    for (Eigen::Index i = 0; i < rhs_.size(); ++i) {
      if (is_free_[static_cast<std::size_t>(i)]) free.push_back(i);
    }
    const Eigen::MatrixXd part = gram_(free, free);
    const Eigen::VectorXd found = part.ldlt().solve(Eigen::VectorXd(rhs_(free)));
    Eigen::VectorXd all = Eigen::VectorXd::Zero(rhs_.size());
    all(free) = found;
    return all;
  }

  /// Goes as far towards `target` as no unknown becomes negative. True when it arrives; otherwise the unknowns that
  /// became zero are no longer free.
  [[nodiscard]] bool move_towards(const Eigen::VectorXd& target) {
    double share = 1;
    Eigen::Index blocking = -1;
    for (Eigen::Index i = 0; i < target.size(); ++i) {
      if (!is_free_[static_cast<std::size_t>(i)] || target(i) > 0) continue;
      const double reach = values_(i) / (values_(i) - target(i));
      if (blocking < 0 || !(reach >= share)) {
        share = std::isfinite(reach) ? reach : 0;
        blocking = i;
      }
    }
    if (blocking < 0) {
      values_ = target;
      return true;
    }
    values_ += share * (target - values_);
    for (Eigen::Index i = 0; i < target.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (i != blocking && !(is_free_[at] && target(i) <= 0 && values_(i) <= 0)) continue;
      values_(i) = 0;
      is_free_[at] = false;
    }
    return false;
  }

  const Eigen::MatrixXd& gram_;
  const Eigen::VectorXd& rhs_;
  double tolerance_;
  Eigen::VectorXd values_;
  std::vector<bool> is_free_;
  std::vector<bool> is_refused_;  ///< since the last step that changed the values
};

}  // namespace

NonNegativeSolution solve_non_negative(const Eigen::MatrixXd& gram, const Eigen::VectorXd& rhs) {
  if (rhs.size() == 0) return {rhs, true};
  const Eigen::VectorXd scale =
      gram.diagonal().unaryExpr([](double square) { return square > 0 ? 1 / std::sqrt(square) : 0.0; });
  const Eigen::MatrixXd scaled_gram = scale.asDiagonal() * gram * scale.asDiagonal();
  const Eigen::VectorXd scaled_rhs = scale.cwiseProduct(rhs);
  const NonNegativeSolution scaled = ActiveSetSearch(scaled_gram, scaled_rhs).run();
  return {scaled.values.cwiseProduct(scale), scaled.converged};
}

}  // namespace lowgear::profile
