#pragma once

#include <memory>
#include <vector>

#include "core/progress.h"
#include "planner/frontier.h"

namespace lowgear {

/// The instance with every slope rounded to a multiple of `quantum_nw`, and breakpoints between equal slopes left out.
/// Every op time that it allows is one of the instance's, and every flow in it is one of the instance's, so that both
/// can be valued exactly in the instance. Flow moves in steps of `quantum_nw`, which bounds the number of vertices.
[[nodiscard]] ProblemInstance with_rounded_slopes(const ProblemInstance& instance, PowerNw quantum_nw);

/// A frontier between proven bounds. Solutions of the rounded instance are valued in the true one: their times and
/// energies are achievable (chords above), their flows prove bounds (tangents below). The rounding costs only in second
/// order, because a solution near the optimum is nearly optimal; what it costs is measured, not assumed.
struct Sandwich {
  Frontier frontier;
  ProblemInstance slow_part;  ///< rounded instance that solves deadlines near T*
  ProblemInstance fast_part;  ///< the coarser one for deadlines near T_min
  TimePs part_at_ps = 0;      ///< deadlines at or above are for `slow_part`
  Checkpoints slow_checkpoints{24};
  Checkpoints fast_checkpoints{24};
};

/// Solves with ever finer rounding until `Frontier::epsilon` is at most `epsilon` (> 0, relative). Work grows with
/// 1 / rounding and not with the number of exact vertices, which is large when stages differ (DESIGN §3).
[[nodiscard]] std::unique_ptr<Sandwich> solve_sandwich(const ProblemInstance& instance, double epsilon,
                                                       Progress* progress = nullptr);

}  // namespace lowgear
