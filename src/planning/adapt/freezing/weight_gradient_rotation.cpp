#include "planning/adapt/freezing/weight_gradient_rotation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/core/error.h"

namespace lowgear::adapt::freezing {
namespace {

constexpr std::int64_t kMillion = 1'000'000;

/// The number nearest to the golden section of `blocks`, which spreads successive multiples most evenly, that has no
/// divisor in common with it.
std::int64_t even_stride(std::int64_t blocks) {
  const auto golden = static_cast<std::int64_t>(std::llround(0.6180339887498949 * static_cast<double>(blocks)));
  for (std::int64_t distance = 0; distance < blocks; ++distance) {
    for (const std::int64_t stride : {golden + distance, golden - distance}) {
      if (stride > 0 && std::gcd(stride, blocks) == 1) return stride;
    }
  }
  return 1;
}

}  // namespace

WeightGradientRotation::WeightGradientRotation(std::int64_t blocks, std::vector<std::int64_t> linear_costs,
                                               double budget)
    : blocks_(blocks), costs_(std::move(linear_costs)), budget_millionths_(std::llround(budget * kMillion)) {
  if (blocks_ < 1 || costs_.empty() || std::ranges::min(costs_) < 1) {
    throw InputError("a model without linear layers has no weight gradients to leave out");
  }
  if (!(budget >= 0 && budget <= kMostBudget)) {
    throw InputError(fmt::format("a budget of {} for weight gradients: give 0 to {}", budget, kMostBudget));
  }
  block_cost_ = std::accumulate(costs_.begin(), costs_.end(), std::int64_t{0});
  stride_ = even_stride(blocks_);
}

/// A Latin square: in each round of the blocks every block has another linear layer than in the rounds before, and
/// neighbours in a round have different ones.
std::int64_t WeightGradientRotation::operation_of(std::int64_t turn) const {
  const std::int64_t place = turn % blocks_;
  const std::int64_t block = place * stride_ % blocks_;
  return block * linears() + (place + turn / blocks_) % linears();
}

WeightGradientRotation::Turn WeightGradientRotation::turn() const {
  Turn turn{.after = state_, .drops = {}};
  turn.after.credit += budget_millionths_ * block_cost_ * blocks_;
  std::int64_t cost = 0;
  while (std::ssize(turn.drops.operations) < operations()) {
    const std::int64_t operation = operation_of(turn.after.next);
    const std::int64_t next_cost = costs_[static_cast<std::size_t>(operation % linears())];
    if (next_cost * kMillion > turn.after.credit) break;
    turn.after.credit -= next_cost * kMillion;
    turn.after.next = (turn.after.next + 1) % operations();
    turn.drops.operations.push_back(operation);
    cost += next_cost;
  }
  std::ranges::sort(turn.drops.operations);
  turn.drops.share = static_cast<double>(cost) / static_cast<double>(block_cost_ * blocks_);
  return turn;
}

WeightGradientRotation::Drops WeightGradientRotation::drops() const { return turn().drops; }

void WeightGradientRotation::advance() { state_ = turn().after; }

void WeightGradientRotation::restore(const State& state) {
  const std::int64_t most = block_cost_ * blocks_ * kMillion;
  if (state.next < 0 || state.next >= operations() || state.credit < 0 || state.credit > most) {
    throw InputError(
        fmt::format("turn {} of {}, credit {}: not a state of this rotation", state.next, operations(), state.credit));
  }
  state_ = state;
}

}  // namespace lowgear::adapt::freezing
