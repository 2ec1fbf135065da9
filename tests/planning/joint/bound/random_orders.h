#pragma once

#include <optional>
#include <random>
#include <vector>

#include "planning/joint/bound/unavoidable_paths.h"
#include "planning/schedule/schedule.h"

namespace lowgear::joint {

/// Any order that data and memory allow: runs one op after another, each chosen at random from those that can run.
/// Empty where the choices have led to a dead end: memory is full, and nothing that frees some can run.
inline std::optional<schedule::Schedule> random_order(const OrderFreedom& freedom, std::mt19937& random) {
  using schedule::Action;
  using schedule::ActionKind;
  const int stages = static_cast<int>(freedom.rank_of_stage.size());
  const OpKind backward = freedom.splits_backward ? OpKind::input_gradient : OpKind::backward;
  schedule::Schedule order;
  order.name = "random";
  order.stages = stages;
  order.microbatches = freedom.microbatches;
  order.ranks.resize(freedom.most_activations.size());
  std::vector<int> held(order.ranks.size(), 0);
  std::vector<int> next(static_cast<std::size_t>(freedom.microbatches), 0);  // place on the way there and back
  std::vector<Action> weight_gradients;                                      // that can run
  const auto rank_of = [&](int stage) {
    return static_cast<std::size_t>(freedom.rank_of_stage[static_cast<std::size_t>(stage)]);
  };
  const std::size_t total = static_cast<std::size_t>(freedom.ops_of_a_group()) * freedom.groups();
  for (std::size_t done = 0; done < total; ++done) {
    std::vector<Action> ready = weight_gradients;
    for (int m = 0; m < freedom.microbatches; ++m) {
      const int place = next[static_cast<std::size_t>(m)];
      if (place >= 2 * stages) continue;
      const int stage = place < stages ? place : 2 * stages - 1 - place;
      if (place < stages && held[rank_of(stage)] >= freedom.most_activations[rank_of(stage)]) continue;
      ready.push_back({ActionKind::compute, place < stages ? OpKind::forward : backward, stage, m});
    }
    if (ready.empty()) return std::nullopt;
    const Action action = ready[random() % ready.size()];
    order.ranks[rank_of(action.stage)].push_back(action);
    if (action.op == OpKind::weight_gradient) {
      std::erase(weight_gradients, action);
    } else {
      ++next[static_cast<std::size_t>(action.microbatch)];
    }
    if (action.op == OpKind::forward) ++held[rank_of(action.stage)];
    if (action.op == OpKind::backward || action.op == OpKind::weight_gradient) --held[rank_of(action.stage)];
    if (action.op == OpKind::input_gradient) {
      weight_gradients.push_back({ActionKind::compute, OpKind::weight_gradient, action.stage, action.microbatch});
    }
  }
  return order;
}

/// Up to four ranks with one stage each, or up to three with two in a loop or a V; any limits of memory.
inline OrderFreedom random_freedom(std::mt19937& random, int most_microbatches = 6) {
  const auto one_of = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  OrderFreedom freedom;
  freedom.microbatches = one_of(1, most_microbatches);
  freedom.splits_backward = one_of(0, 1) == 1;
  const int layout = one_of(0, 2);  // one stage each, a loop, a V
  const int ranks = one_of(1, layout == 0 ? 4 : 3);
  for (int rank = 0; rank < ranks; ++rank) freedom.rank_of_stage.push_back(rank);
  for (int i = 0; layout > 0 && i < ranks; ++i) freedom.rank_of_stage.push_back(layout == 1 ? i : ranks - 1 - i);
  const int least = layout == 0 ? 1 : 2;
  const int ops = least * freedom.microbatches;
  for (int rank = 0; rank < ranks; ++rank) freedom.most_activations.push_back(one_of(least, 1 + ops));
  return freedom;
}

}  // namespace lowgear::joint
