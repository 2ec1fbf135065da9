#pragma once

#include <random>
#include <vector>

#include "planning/joint/orders/joint_problem.h"
#include "planning/planner/policies/sample_problem.h"

namespace lowgear::joint {

/// Modelled stages with the given forward times, backwards split by half, at 80 W while they wait.
inline JointProblem sample_orders(const std::vector<double>& forward_s, int microbatches, MemoryLimit memory = {}) {
  return {.profile = with_split_backward(planner::modelled_profile(forward_s, 1305), 0.5),
          .blocking_power_w = std::vector<double>(forward_s.size(), 80),
          .microbatches = microbatches,
          .memory = memory};
}

inline JointProblem random_orders(std::mt19937& random) {
  const auto one_of = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  std::vector<double> forward_s;
  const int ranks = one_of(1, 4);
  for (int rank = 0; rank < ranks; ++rank) forward_s.push_back(0.001 * one_of(40, 60));
  MemoryLimit memory;
  if (one_of(0, 1) == 1) memory.microbatches = {one_of(1, ranks + 2)};
  return sample_orders(forward_s, one_of(1, 7), memory);
}

}  // namespace lowgear::joint
