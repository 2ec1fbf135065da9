#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/core/progress.h"
#include "planning/planner/frontier/frontier.h"
#include "planning/planner/frontier/work_report.h"

namespace lowgear::planner {

/// How coarsely slopes are rounded: to multiples of `quantum_nw` x 2^k, the largest that is at most 1/`divisor` of the
/// slope, and of `quantum_nw` where even that is more.
struct SlopeRounding {
  PowerNw quantum_nw = 1;
  PowerNw divisor = 5;
};

/// The instance with rounded slopes and without breakpoints between equal ones. Every time that it allows an op is one
/// that the instance allows, and every flow in it is a flow in the instance, so that both can be valued exactly in the
/// instance. Flow moves in steps of at least `quantum_nw`, which bounds the number of vertices.
[[nodiscard]] ProblemInstance with_rounded_slopes(const ProblemInstance& instance, SlopeRounding rounding);

/// A frontier between proven bounds, and the rounded instances that solved it.
struct Sandwich {
  /// A rounded instance, which solves deadlines from `fastest_ps` on (`DeadlineSolver`).
  struct Part {
    std::unique_ptr<const ProblemInstance> instance;
    Checkpoints checkpoints;
    TimePs fastest_ps = 0;
  };

  Frontier frontier;
  std::vector<Part> parts;  ///< coarsest first; the first reaches all deadlines

  /// Index of the finest part that solves the deadline.
  [[nodiscard]] std::size_t part_for(TimePs deadline_ps) const;
};

/// Solves single deadlines of a sandwich on its finest part for them.
class SandwichSolver final : public ContinuousSolver {
 public:
  /// Both arguments must outlive the solver; `work` may be null.
  explicit SandwichSolver(const Sandwich& sandwich, WorkReport* work = nullptr);
  [[nodiscard]] ContinuousPlan solve(TimePs deadline_ps) override;

 private:
  const Sandwich* sandwich_;
  WorkReport* work_;
  std::vector<std::optional<DeadlineSolver>> solvers_;  ///< by part; made when first needed
};

/// Solves ever finer rounded instances, each as far as is still needed, until `Frontier::epsilon` is at most `epsilon`
/// (> 0, relative). Their solutions are valued in the true instance: the times and energies are achievable (chords
/// above), the flows prove bounds (tangents below). Rounding costs only in second order, as a solution near the optimum
/// is nearly optimal; and what it costs is measured, not assumed. What rounding and sampling cannot bring within
/// epsilon is solved exactly in the end. Work grows with 1 / quantum and not with the number of exact vertices, which
/// is large when stages differ. `observers` are shown every solution that the frontier is made of; both last may be
/// empty / null.
[[nodiscard]] Sandwich solve_sandwich(const ProblemInstance& instance, double epsilon,
                                      std::span<FrontierObserver* const> observers = {}, Progress* progress = nullptr);

}  // namespace lowgear::planner
