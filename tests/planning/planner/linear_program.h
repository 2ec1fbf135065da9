#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "planning/planner/frontier/instance.h"

namespace lowgear::planner {

/// A corner of an op's convex cost.
struct CostCorner {
  double time_s = 0;
  double energy_j = 0;  ///< effective
};

/// The planning problem as a linear program, solved by Clp: an oracle for the frontier that shares nothing with it.
/// Start times and op times are variables; an op's time is its fastest plus a part of each piece of its cost, each part
/// saving energy at that piece's slope; precedences are rows; energy plus blocking power x iteration time is minimised.
class LinearProgram {
 public:
  /// `corners` by op, fastest first, convex; `edges` are (before, after).
  LinearProgram(const std::vector<std::vector<CostCorner>>& corners, std::span<const std::pair<int, int>> edges,
                double blocking_power_w);
  ~LinearProgram();

  /// Least energy of an iteration of at most `deadline_s`. Throws std::runtime_error when Clp finds none.
  [[nodiscard]] double least_energy_j(double deadline_s);

 private:
  struct Model;
  std::unique_ptr<Model> model_;
};

/// The linear program of an integer instance, in doubles.
[[nodiscard]] LinearProgram linear_program_of(const ProblemInstance& instance);

}  // namespace lowgear::planner
