#pragma once

#include <cstdint>
#include <vector>

namespace lowgear::adapt::freezing {

/// Which weight gradients each step leaves out, under a budget: products of matrices, one for each linear layer of each
/// block. They take turns in an order that spreads the products of one step over all blocks, so that every pipeline
/// stage is relieved alike. The unused budget of a step is carried over: from the start to any step, the products left
/// out cost at most `budget` of all, and fall short of it by less than the costliest product. The turns do not depend
/// on gradients (TimelyFreeze, arXiv 2602.05754, chooses at random).
///
/// Pure: the same state gives the same operations, bit for bit.
class WeightGradientRotation {
 public:
  /// The memory of a rotation.
  struct State {
    std::int64_t next = 0;    ///< turn of the next operation, 0 to operations() - 1
    std::int64_t credit = 0;  ///< cost that may be left out, times a million

    friend bool operator==(const State&, const State&) = default;
  };
  /// One step.
  struct Drops {
    std::vector<std::int64_t> operations;  ///< block * linears + linear, rising
    double share = 0;                      ///< of the cost of all

    friend bool operator==(const Drops&, const Drops&) = default;
  };

  /// `linear_costs`: of the linear layers of a block, in any unit, above 0. Throws InputError when there is no block or
  /// linear layer, or `budget` is not in [0, kMostBudget].
  WeightGradientRotation(std::int64_t blocks, std::vector<std::int64_t> linear_costs, double budget);

  /// The products that the next step leaves out. Changes nothing.
  [[nodiscard]] Drops drops() const;
  /// The next step is done.
  void advance();
  [[nodiscard]] const State& state() const { return state_; }
  /// Throws InputError when the state belongs to another rotation.
  void restore(const State& state);
  [[nodiscard]] std::int64_t operations() const { return blocks_ * static_cast<std::int64_t>(costs_.size()); }
  [[nodiscard]] std::int64_t linears() const { return static_cast<std::int64_t>(costs_.size()); }

  /// A layer that is never trained is frozen, which `freezing::Controller` decides.
  static constexpr double kMostBudget = 0.9;

 private:
  struct Turn {
    State after;
    Drops drops;
  };
  [[nodiscard]] Turn turn() const;
  [[nodiscard]] std::int64_t operation_of(std::int64_t turn) const;

  std::int64_t blocks_;
  std::vector<std::int64_t> costs_;
  std::int64_t block_cost_ = 0;
  std::int64_t budget_millionths_;
  std::int64_t stride_ = 1;  ///< blocks from one turn to the next; no divisor in common with their number
  State state_;
};

}  // namespace lowgear::adapt::freezing
