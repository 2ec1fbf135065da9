#pragma once

#include <cstdint>
#include <random>

#include "planning/planner/frontier/instance.h"

namespace lowgear::planner {

/// Uniform in [low, high], the same with every standard library.
[[nodiscard]] std::int64_t random_in(std::mt19937_64& random, std::int64_t low, std::int64_t high);

struct RandomInstanceLimits {
  int min_ops = 1;
  int max_ops = 30;
  int max_pieces = 8;                    ///< of a cost; 0 pieces is an op with one time
  TimePs max_time_ps = 100'000'000'000;  ///< of a fastest time, and of all pieces of a cost together
  PowerNw max_slope_nw = 2'000'000'000'000;
  PowerNw max_blocking_power_nw = 500'000'000'000;
};

/// A random graph with random convex costs, some shared. Ops are numbered in no topological order.
[[nodiscard]] ProblemInstance random_instance(std::mt19937_64& random, const RandomInstanceLimits& limits);

}  // namespace lowgear::planner
